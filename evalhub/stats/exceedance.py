"""Tails: does the candidate exceed the baseline's own quantile, or a ceiling, too often?

Exact for any continuous distribution and without random numbers; the alternatives by resampling
are slower by two orders and wrong in size below 60 runs.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from evalhub.stats.intervals import as_probability
from evalhub.stats.quantiles import quantile

# Below, a p95 is the second largest value or less: no relative test.
FEWEST_RUNS = 20
# From here on the largest baseline value is a threshold worth a tenth of alpha.
EXTREME_FEWEST_RUNS = 60
EXTREME_WEIGHT = 0.1


class Exceedance(NamedTuple):
    """How many candidate runs exceed the baseline's r-th order statistic, and how odd that is.

    Counts and ranks are of effective runs when `deff` is above 1. `p_bb` is None where the
    threshold is tied in the baseline: then Fisher's conditional test decides.
    """

    n_b: int
    n_c: int
    r: int
    threshold: float
    k: int
    k_b: int
    k_max: int
    ties: bool
    p_bb: float | None
    p_fisher: float
    p_tail: float
    quantile_b: float
    quantile_c: float
    deff: float = 1.0


class Ceiling(NamedTuple):
    """Runs over a ceiling, and the chances of as many or as few if exactly 1 - q were over."""

    n: int
    k_over: int
    p_breach: float
    p_pass: float
    verdict: str


class TailInformation(NamedTuple):
    """The fewest exceeding runs that reject, and the exceeding share seen with 80 % power."""

    k: int | None
    share: float | None


def order_rank(n: int, q: float) -> int:
    """Return the rank (from 1) of the order statistic that stands for the quantile.

    >>> order_rank(20, 0.95), order_rank(60, 0.95)
    (19, 57)
    """
    # 0.95 * n may come out a hair above a whole number.
    return max(1, min(n, ceil(q * n - 1e-9)))


def exceedance(
    baseline: Sequence[float] | NDArray[np.float64],
    candidate: Sequence[float] | NDArray[np.float64],
    *,
    q: float = 0.95,
    deff: float = 1.0,
) -> Exceedance:
    """Test that the candidate exceeds the baseline's `q` quantile more often than it should.

    Samples of runs, shapes (n_b,) and (n_c,), one unit, larger is worse. Under equal continuous
    distributions the number of candidates above the r-th baseline value is beta-binomial. With 60
    runs per arm the largest baseline value is a second threshold (weighted Bonferroni .9 / .1).
    `deff` divides sizes and counts where scenarios were drawn anew (cluster correction).

    Raises:
        ValueError: if an arm has no runs.
    """
    arm_b, arm_c = np.sort(np.asarray(baseline, dtype=float)), np.asarray(candidate, dtype=float)
    if min(len(arm_b), len(arm_c)) == 0:
        raise ValueError("An arm without runs has no tail.")
    threshold = float(arm_b[order_rank(len(arm_b), q) - 1])
    n_b, n_c = max(1, int(len(arm_b) / deff)), max(1, int(len(arm_c) / deff))
    r = order_rank(n_b, q)
    k = min(n_c, int(np.count_nonzero(arm_c > threshold) / deff))
    k_b = min(n_b - 1, int(np.count_nonzero(arm_b > threshold) / deff))
    k_max = min(n_c, int(np.count_nonzero(arm_c > arm_b[-1]) / deff))
    ties = bool(np.count_nonzero(arm_b == threshold) > 1)
    p_fisher = as_probability(scipy.stats.hypergeom.sf(k - 1, n_b + n_c, k_b + k, n_c))
    p_bb = None if ties else _beta_binomial_tail(k, n_c, n_b - r + 1, r)
    p_tail = p_fisher if p_bb is None else p_bb
    if p_bb is not None and min(n_b, n_c) >= EXTREME_FEWEST_RUNS:
        p_max = _beta_binomial_tail(k_max, n_c, 1, n_b)
        p_tail = min(1.0, p_bb / (1 - EXTREME_WEIGHT), p_max / EXTREME_WEIGHT)
    return Exceedance(
        n_b=n_b,
        n_c=n_c,
        r=r,
        threshold=threshold,
        k=k,
        k_b=k_b,
        k_max=k_max,
        ties=ties,
        p_bb=p_bb,
        p_fisher=p_fisher,
        p_tail=p_tail,
        quantile_b=quantile(arm_b, q),
        quantile_c=quantile(arm_c, q),
        deff=deff,
    )


def non_inferiority_p(
    test: Exceedance, candidate: Sequence[float] | NDArray[np.float64], *, tolerance: float
) -> float | None:
    """Return the p that the candidate's tail is worse than the baseline's by more than `tolerance`.

    `tolerance` is relative (0.5 allows half as much again), so the values must be on a ratio
    scale: None when a value is negative or the threshold is not above 0. Never below alpha .05 with
    fewer than 59 candidate runs, whatever they are.
    """
    arm = np.asarray(candidate, dtype=float)
    if test.threshold <= 0 or bool(np.any(arm < 0)):
        return None
    return _at_most(test, int(np.count_nonzero(arm / (1 + tolerance) >= test.threshold)))


def absolute_non_inferiority_p(
    test: Exceedance, candidate: Sequence[float] | NDArray[np.float64], *, tolerance: float
) -> float:
    """Do the same as `non_inferiority_p` with a tolerance in the rubric's unit, for any values."""
    arm = np.asarray(candidate, dtype=float)
    return _at_most(test, int(np.count_nonzero(arm - tolerance >= test.threshold)))


def lowest_non_inferiority_p(test: Exceedance) -> float:
    """Return the p that no exceeding run at all would give: whether safety can be shown at all."""
    return _at_most(test, 0)


def ceiling_test(k_over: int, n: int, *, q: float = 0.95, alpha: float = 0.05) -> Ceiling:
    """Say whether `k_over` of `n` runs over a ceiling show a breach, show safety, or neither.

    Distribution-free. A breach can be shown with 4 of 20 runs; safety needs 59 runs without one.
    `verdict` is CEILING_BREACH, PASS or INCONCLUSIVE.

    Raises:
        ValueError: if there are no runs, or more over the ceiling than there are.
    """
    if n < 1 or not 0 <= k_over <= n:
        raise ValueError(f"{k_over} of {n} runs over a ceiling are not a count.")
    allowed = 1 - q
    p_breach = (
        1.0 if k_over == 0 else as_probability(float(scipy.special.bdtrc(k_over - 1, n, allowed)))
    )
    p_pass = as_probability(float(scipy.special.bdtr(k_over, n, allowed)))
    verdict = "INCONCLUSIVE"
    if p_breach < alpha:
        verdict = "CEILING_BREACH"
    elif p_pass < alpha:
        verdict = "PASS"
    return Ceiling(n, k_over, p_breach, p_pass, verdict)


@lru_cache(maxsize=1024)
def tail_information(
    n_b: int, n_c: int, *, q: float = 0.95, alpha: float = 0.05, power: float = 0.80
) -> TailInformation:
    """Return the smallest tail regression that `n_b` and `n_c` runs could have seen: the tail MDE.

    `share` is the candidate's true share of runs above the baseline's quantile (1 - q when nothing
    changed) that is seen with `power`. None where no count rejects.

    Raises:
        ValueError: if an arm has no runs.
    """
    if min(n_b, n_c) < 1:
        raise ValueError("An arm without runs has no tail.")
    r = order_rank(n_b, q)
    budget = alpha * (1 - EXTREME_WEIGHT) if min(n_b, n_c) >= EXTREME_FEWEST_RUNS else alpha
    low, high = 1, n_c + 1
    while low < high:
        middle = (low + high) // 2
        if _beta_binomial_tail(middle, n_c, n_b - r + 1, r) < budget:
            high = middle
        else:
            low = middle + 1
    if low > n_c:
        return TailInformation(None, None)
    # P(Binomial(n, s) >= k) is the regularized beta I_s(k, n - k + 1).
    return TailInformation(low, float(scipy.special.betaincinv(low, n_c - low + 1, power)))


def _at_most(test: Exceedance, over: int) -> float:
    effective = min(test.n_c, ceil(over / test.deff))
    return as_probability(
        scipy.stats.betabinom.cdf(effective, test.n_c, test.n_b - test.r + 1, test.r)
    )


def _beta_binomial_tail(k: int, n: int, a: int, b: int) -> float:
    return 1.0 if k <= 0 else as_probability(scipy.stats.betabinom.sf(k - 1, n, a, b))
