"""Two pass rates: pooled z, exact tests, pairs, and the intervals of Wilson and Newcombe."""

from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np
import scipy

from evalhub.stats.clusters import design_effect
from evalhub.stats.intervals import Interval, as_probability, normal_quantile, normal_tail

# The z test keeps its size from these numbers on (exact enumeration over all true rates).
Z_FEWEST_RUNS = 10
Z_FEWEST_EXPECTED = 1.0
# Boschloo's test searches over the nuisance rate: 0.1 s at 100 x 100, seconds at 400 x 400.
BOSCHLOO_LARGEST_PRODUCT = 10_000


class ZTest(NamedTuple):
    """A pooled z test; `z` is None where neither arm varies."""

    z: float | None
    p: float


class RateTest(NamedTuple):
    """The test that the sizes of the arms call for: `method` is z, boschloo or fisher."""

    method: str
    expected_least: float
    z: float | None
    p: float


class BoschlooTest(NamedTuple):
    """Boschloo's central p, and the smaller one-sided Fisher p that it starts from."""

    fisher_statistic: float
    p: float


class RaoScottTest(NamedTuple):
    """A pooled z test on effective counts."""

    deff_b: float
    deff_c: float
    deff: float
    z: float | None
    p: float
    passes_b: float
    runs_b: float
    passes_c: float
    runs_c: float


class McNemarTest(NamedTuple):
    """Pairs that changed sides; `z` is for display and None without such pairs."""

    midp: float
    exact: float
    z: float | None


def wilson_interval(passed: float, trials: float, *, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a pass rate (0 to 1).

    Unlike mean ± z·se it stays inside [0, 1] and does not collapse to a point at 0 or at `trials`
    passes. Counts may be fractional (effective counts after Rao-Scott).
    Source: Wilson 1927; Newcombe 1998, Statistics in Medicine 17:857-872, method 3.

    Raises:
        ValueError: if there are no trials, or more passes than trials.

    >>> wilson_interval(0, 20)
    Interval(low=0.0, high=0.161...)
    """
    if trials <= 0 or not -1e-9 <= passed <= trials * (1 + 1e-9):
        raise ValueError(f"{passed} passes of {trials} trials have no interval.")
    z = normal_quantile((1 + confidence) / 2)
    rate = min(1.0, max(0.0, passed / trials))
    center = rate + z * z / (2 * trials)
    spread = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    divisor = 1 + z * z / trials
    # The ends are exact by definition; rounding would put them a hair inside.
    low = 0.0 if rate == 0 else max(0.0, (center - spread) / divisor)
    high = 1.0 if rate == 1 else min(1.0, (center + spread) / divisor)
    return Interval(low, high)


def newcombe_interval(
    x_b: float, n_b: float, x_c: float, n_c: float, *, confidence: float = 0.95
) -> Interval:
    """Return the interval of the difference of two pass rates, candidate minus baseline.

    Hybrid score, without continuity correction: Newcombe 1998, Statistics in Medicine 17:873-890,
    method 10. Never a point, even when both arms pass everything.

    Raises:
        ValueError: if an arm has no trials, or more passes than trials.
    """
    rate_b, rate_c = x_b / n_b if n_b > 0 else 0.0, x_c / n_c if n_c > 0 else 0.0
    wilson_b = wilson_interval(x_b, n_b, confidence=confidence)
    wilson_c = wilson_interval(x_c, n_c, confidence=confidence)
    delta = rate_c - rate_b
    return Interval(
        low=max(-1.0, delta - sqrt((rate_c - wilson_c.low) ** 2 + (wilson_b.high - rate_b) ** 2)),
        high=min(1.0, delta + sqrt((wilson_c.high - rate_c) ** 2 + (rate_b - wilson_b.low) ** 2)),
    )


def pooled_z(x_b: float, n_b: float, x_c: float, n_c: float) -> ZTest:
    """Test two pass rates for equality with the pooled variance.

    Raises:
        ValueError: if an arm has no trials, or more passes than trials.
    """
    _require_counts(x_b, n_b)
    _require_counts(x_c, n_c)
    pooled = (x_b + x_c) / (n_b + n_c)
    variance = pooled * (1 - pooled) * (1 / n_b + 1 / n_c)
    if variance <= 1e-15 / min(n_b, n_c):
        return ZTest(None, 1.0)
    z = (x_c / n_c - x_b / n_b) / sqrt(variance)
    return ZTest(z, 2 * normal_tail(abs(z)))


def rate_test(x_b: int, n_b: int, x_c: int, n_c: int) -> RateTest:
    """Test two pass rates with the test that keeps its size at these counts.

    The pooled z from 10 runs per arm and one expected count on; below, Boschloo's exact test; above
    10,000 for n_b * n_c, where that takes too long, Fisher's. Where neither arm varies p is 1.

    Raises:
        ValueError: if an arm has no trials, or more passes than trials.
    """
    plain = pooled_z(x_b, n_b, x_c, n_c)
    pooled = (x_b + x_c) / (n_b + n_c)
    expected = min(n_b, n_c) * min(pooled, 1 - pooled)
    if min(n_b, n_c) >= Z_FEWEST_RUNS and (expected >= Z_FEWEST_EXPECTED or plain.z is None):
        return RateTest("z", expected, plain.z, plain.p)
    if n_b * n_c > BOSCHLOO_LARGEST_PRODUCT:
        return RateTest("fisher", expected, plain.z, fisher_p(x_b, n_b, x_c, n_c))
    if plain.z is None:
        return RateTest("boschloo", expected, None, 1.0)
    return RateTest("boschloo", expected, plain.z, boschloo_test(x_b, n_b, x_c, n_c).p)


@lru_cache(maxsize=4096)
def boschloo_test(x_b: int, n_b: int, x_c: int, n_c: int) -> BoschlooTest:
    """Return Boschloo's exact test: twice the smaller one-sided p (columns of the table are arms).

    Source: Boschloo 1970, Statistica Neerlandica 24:1-9. Remembers its answers, as it is slow.

    Raises:
        ValueError: if an arm has no trials, or more passes than trials.
    """
    _require_counts(x_b, n_b)
    _require_counts(x_c, n_c)
    result = scipy.stats.boschloo_exact([[x_b, x_c], [n_b - x_b, n_c - x_c]])
    return BoschlooTest(float(result.statistic), as_probability(result.pvalue))


def fisher_p(x_b: int, n_b: int, x_c: int, n_c: int) -> float:
    """Return the two-sided p of Fisher's exact test.

    Raises:
        ValueError: if an arm has no trials, or more passes than trials.
    """
    _require_counts(x_b, n_b)
    _require_counts(x_c, n_c)
    table = np.array([[x_b, x_c], [n_b - x_b, n_c - x_c]])
    return as_probability(scipy.stats.fisher_exact(table).pvalue)


def fisher_more(x_b: int, n_b: int, x_c: int, n_c: int) -> float:
    """Return Fisher's one-sided p that the candidate's rate is higher than the baseline's."""
    _require_counts(x_b, n_b)
    _require_counts(x_c, n_c)
    return as_probability(scipy.stats.hypergeom.sf(x_c - 1, n_b + n_c, x_b + x_c, n_c))


def rao_scott_z(
    passes_b: list[float], runs_b: list[int], passes_c: list[float], runs_c: list[int]
) -> RaoScottTest:
    """Test two pass rates whose runs share scenarios: pooled z on counts divided by `deff`.

    Passes and runs per scenario, shapes (G_b,) and (G_c,); `deff` is the mean of the arms' design
    effects. Source: Rao and Scott 1992, Biometrics 48:577-585.

    Raises:
        ValueError: with fewer than two scenarios in an arm, or a scenario without runs.
    """
    deff_b = design_effect(passes_b, runs=runs_b)
    deff_c = design_effect(passes_c, runs=runs_c)
    deff = (deff_b + deff_c) / 2
    x_b, n_b = sum(passes_b) / deff, sum(runs_b) / deff
    x_c, n_c = sum(passes_c) / deff, sum(runs_c) / deff
    test = pooled_z(x_b, n_b, x_c, n_c)
    return RaoScottTest(deff_b, deff_c, deff, test.z, test.p, x_b, n_b, x_c, n_c)


def mcnemar(pass_to_fail: int, fail_to_pass: int) -> McNemarTest:
    """Test pairs of single runs by those that changed sides; the gate uses the mid-p.

    Source: Fagerland, Lydersen and Laake 2013, BMC Med. Res. Methodol. 13:91.

    Raises:
        ValueError: for a negative count.

    >>> mcnemar(6, 0).exact
    0.03125
    """
    if min(pass_to_fail, fail_to_pass) < 0:
        raise ValueError(f"{pass_to_fail} and {fail_to_pass} are not two counts of pairs.")
    changed = pass_to_fail + fail_to_pass
    if changed == 0:
        return McNemarTest(1.0, 1.0, None)
    fewer = min(pass_to_fail, fail_to_pass)
    tail = float(scipy.special.bdtr(fewer, changed, 0.5))
    point = float(scipy.stats.binom.pmf(fewer, changed, 0.5))
    # Signed like delta: failures that were passes make it negative.
    z = (fail_to_pass - pass_to_fail) / sqrt(changed)
    return McNemarTest(as_probability(2 * tail - point), as_probability(2 * tail), z)


def _require_counts(passed: float, trials: float) -> None:
    if trials <= 0 or not -1e-9 <= passed <= trials * (1 + 1e-9):
        raise ValueError(f"{passed} passes of {trials} trials are not a rate.")
