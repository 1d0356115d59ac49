"""The digest by which a person names a plan, looked at before the store is asked."""

import argparse
import re

from evalhub.runner.errors import InputError

_HEX = re.compile(r"[0-9a-f]{64}")
_LONGEST_SHOWN = 80


def add_plan_digest(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a plan."""
    parser.add_argument("digest", metavar="DIGEST", help="sha256:… of the plan")


def plan_digest(text: str) -> str:
    """Return the digest that a person gave, with or without its `sha256:`.

    Raises:
        InputError: if it is none; the sentence says what one looks like.

    >>> plan_digest("ab" * 32) == "sha256:" + "ab" * 32
    True
    """
    digits = text.strip().lower().removeprefix("sha256:")
    if _HEX.fullmatch(digits) is None:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
        raise InputError(
            f"The plan's digest was {shown!r}; expected sha256: and 64 hexadecimal digits, "
            "as `evalhub plan build` and `evalhub plans` print it."
        )
    return f"sha256:{digits}"
