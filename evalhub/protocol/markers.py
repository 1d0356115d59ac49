"""The marker that stands where a secret stood: `[redacted:kind:n]`, the same n for the same secret."""

import re

MARKER = re.compile(r"\[redacted:([a-z0-9][a-z0-9-]{0,39}):([0-9]{1,9})\]")


def marker(kind: str, number: int) -> str:
    """Return the marker of the secret with this number among those of its kind.

    >>> marker("aws", 2)
    '[redacted:aws:2]'
    """
    return f"[redacted:{kind}:{number}]"
