"""Chance that can be repeated: numbers that follow from labels alone."""

import hashlib


def unit(*labels: object) -> float:
    """Return a number in [0, 1) that follows from the labels.

    >>> unit("a", 1) == unit("a", 1) != unit("a", 2)
    True
    """
    text = "\x1f".join(str(label) for label in labels)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


def noise(*labels: object, spread: float) -> float:
    """Return a number around 0 with standard deviation `spread`, nearly normal, never beyond 6 of it."""
    # The sum of twelve uniform numbers has variance 1.
    return spread * (sum(unit(*labels, n) for n in range(12)) - 6.0)
