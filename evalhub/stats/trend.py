"""Nights in a row: the sequential test that says when a match rate has dropped."""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from evalhub.stats.binary import wilson_interval

# Crossed less than once in 365 nights on average while the rate is p0 or better (e-process bound).
YEARLY_LIMIT = log(365)


class Cusum(NamedTuple):
    """The statistic after each night, and the first night (from 0) at or over the limit."""

    statistic: tuple[float, ...]
    alarm: int | None


def bernoulli_cusum(
    matches: Sequence[int],
    *,
    probes: Sequence[int],
    p0: float,
    p1: float,
    limit: float = YEARLY_LIMIT,
) -> Cusum:
    """Accumulate the evidence, night by night, that a match rate fell from `p0` to `p1`.

    `matches` of `probes` per night, both of shape (nights,). The statistic restarts at 0 and may
    be below it. Source: Page 1954, Biometrika 41:100-115; Reynolds and Stoumbos 1999.

    Raises:
        ValueError: unless 0 < p1 < p0 < 1 and each night has no more matches than probes.
    """
    if not 0 < p1 < p0 < 1:
        raise ValueError(f"A drop from {p0} to {p1} is not one between 1 and 0.")
    if len(matches) != len(probes) or any(
        not 0 <= x <= n for x, n in zip(matches, probes, strict=True)
    ):
        raise ValueError("Each night needs its matches and its number of probes.")
    hit, miss = log(p1 / p0), log((1 - p1) / (1 - p0))
    path: list[float] = []
    alarm = None
    level = 0.0
    for night, (x, n) in enumerate(zip(matches, probes, strict=True)):
        level = max(0.0, level) + x * hit + (n - x) * miss
        path.append(level)
        if alarm is None and level >= limit:
            alarm = night
    return Cusum(tuple(path), alarm)


def clean_rate(matches: int, *, probes: int) -> float:
    """Return the rate that clean nights vouch for: Wilson's one-sided 80 % bound, .5 to .995.

    Raises:
        ValueError: if there were no probes.
    """
    return min(0.995, max(0.5, wilson_interval(matches, probes, confidence=0.60).low))
