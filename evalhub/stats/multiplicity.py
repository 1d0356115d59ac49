"""Many rubrics at once: the corrections of Holm and of Benjamini and Hochberg."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def holm(p: Sequence[float]) -> list[float]:
    """Return p adjusted for the family-wise error rate, in the order given (shape (k,)).

    Source: Holm 1979, Scand. J. Statist. 6:65-70.

    Raises:
        ValueError: if something is not a probability.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values, order = _sorted(p)
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(value) for value in adjusted]


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Return p adjusted for the false discovery rate, in the order given (shape (k,)).

    For slices only, which inform and do not gate.
    Source: Benjamini and Hochberg 1995, J. R. Statist. Soc. B 57:289-300.

    Raises:
        ValueError: if something is not a probability.
    """
    values, order = _sorted(p)
    steps = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(steps[::-1])[::-1])
    return [float(value) for value in adjusted]


def _sorted(p: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    values = np.asarray(p, dtype=float)
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"{list(p)} holds something that is not a probability.")
    return values, np.argsort(values, kind="stable")
