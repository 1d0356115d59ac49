"""Intervals, the normal and Student's t: what every test here is built from."""

from math import isfinite
from typing import NamedTuple

import scipy

# Beyond this, squares and their sums leave the range of a float; no score of an agent comes near.
LARGEST_MAGNITUDE = 1e100


class Interval(NamedTuple):
    """A closed range; `low <= high`."""

    low: float
    high: float


def is_usable(value: float | None) -> bool:
    """Say whether a value is a number that statistics can use: there, finite, not absurdly large."""
    return value is not None and isfinite(value) and abs(value) <= LARGEST_MAGNITUDE


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile of `probability` (0 < probability < 1)."""
    return float(scipy.special.ndtri(probability))


def normal_tail(z: float) -> float:
    """Return P(Z > z) for a standard normal Z."""
    return float(scipy.special.ndtr(-z))


def t_quantile(probability: float, *, df: float) -> float:
    """Return the quantile of Student's t with `df` > 0 degrees of freedom."""
    return float(scipy.special.stdtrit(df, probability))


def t_tail(t: float, *, df: float) -> float:
    """Return P(T > t) for Student's t with `df` > 0 degrees of freedom."""
    return float(scipy.special.stdtr(df, -t))


def two_sided_t(t: float, *, df: float) -> float:
    """Return the two-sided p of a t statistic."""
    return 2.0 * t_tail(abs(t), df=df)


def t_interval(delta: float, *, se: float, df: float, confidence: float = 0.95) -> Interval:
    """Return `delta` ± t·`se` at `confidence` (two-sided)."""
    half = t_quantile((1 + confidence) / 2, df=df) * se
    return Interval(delta - half, delta + half)


def as_probability(value: float) -> float:
    """Cut off the rounding dust of a sum of probabilities.

    >>> as_probability(1.0000000000000002)
    1.0
    """
    return min(1.0, max(0.0, float(value)))
