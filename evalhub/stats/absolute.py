"""Is the candidate good enough by itself? Never answered by comparing a mean with a number."""

from collections.abc import Sequence
from enum import StrEnum
from math import sqrt
from typing import NamedTuple

from evalhub.stats.binary import wilson_interval
from evalhub.stats.clusters import design_effect
from evalhub.stats.decision import FLOOR_TOLERANCE
from evalhub.stats.intervals import t_quantile
from evalhub.stats.welch import summary

# Fewer equal values show nothing about the next one.
FEWEST_EQUAL = 5


class FloorVerdict(StrEnum):
    """Where a mean lies relative to an absolute floor."""

    ABOVE = "ABOVE"
    BELOW_FLOOR = "BELOW_FLOOR"
    INCONCLUSIVE = "INCONCLUSIVE"


class FloorTest(NamedTuple):
    """One-sided 95 % bounds of a mean and what they say; bounds are None where undefined."""

    verdict: FloorVerdict
    lower95: float | None
    upper95: float | None


def mean_floor(means: Sequence[float], *, floor: float) -> FloorTest:
    """Test scenario means (shape (n,), goodness units) against `floor` by a one-sample t.

    Without variation five equal values are taken at their word; fewer, or a single scenario,
    are INCONCLUSIVE.
    """
    if len(means) < 2:
        return FloorTest(FloorVerdict.INCONCLUSIVE, None, None)
    sample = summary(means)
    if sample.sd == 0 and sample.n < FEWEST_EQUAL:
        return FloorTest(FloorVerdict.INCONCLUSIVE, None, None)
    half = t_quantile(0.95, df=sample.n - 1) * sample.sd / sqrt(sample.n)
    return _floor_test(sample.mean - half, sample.mean + half, floor=floor)


def rate_floor(passes: Sequence[float], *, runs: Sequence[int], floor: float) -> FloorTest:
    """Test a pass rate against `floor` by one-sided Wilson bounds.

    Passes and runs per scenario, shape (G,); several runs per scenario count as their effective
    number (Rao-Scott).
    """
    if len(passes) < 2:
        return FloorTest(FloorVerdict.INCONCLUSIVE, None, None)
    deff = design_effect(passes, runs=runs)
    bounds = wilson_interval(sum(passes) / deff, sum(runs) / deff, confidence=0.90)
    return _floor_test(bounds.low, bounds.high, floor=floor)


def _floor_test(lower: float, upper: float, *, floor: float) -> FloorTest:
    verdict = FloorVerdict.INCONCLUSIVE
    if upper < floor - FLOOR_TOLERANCE:
        verdict = FloorVerdict.BELOW_FLOOR
    elif lower >= floor - FLOOR_TOLERANCE:
        verdict = FloorVerdict.ABOVE
    return FloorTest(verdict, lower, upper)
