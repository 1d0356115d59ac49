"""Two independent samples of scenario means: Welch's t test and its equivalence test."""

from collections.abc import Sequence
from enum import StrEnum
from math import comb, sqrt
from typing import NamedTuple

import numpy as np

from evalhub.stats.intervals import (
    LARGEST_MAGNITUDE,
    Interval,
    is_usable,
    t_interval,
    t_tail,
    two_sided_t,
)

# A spread below this share of the mean is rounding, not variation.
ZERO_SPREAD = 1e-12
EXACT_COMBINATIONS = 1000


class Edge(StrEnum):
    """Why a t test has no statistic."""

    N_LT_2 = "N_LT_2"
    ZERO_VARIANCE_EQUAL = "ZERO_VARIANCE_EQUAL"
    ZERO_VARIANCE_SEPARATED = "ZERO_VARIANCE_SEPARATED"
    ZERO_VARIANCE_SHIFT = "ZERO_VARIANCE_SHIFT"


class Summary(NamedTuple):
    """Size, mean and standard deviation (n-1) of a sample; `sd` is 0 for a single value."""

    n: int
    mean: float
    sd: float


class TTest(NamedTuple):
    """A t test in rubric units. What is not defined is None, and `edge` says why."""

    delta: float | None
    se: float | None
    df: float | None
    t: float | None
    p: float | None
    ci95: Interval | None
    ci90: Interval | None
    edge: Edge | None = None


class Equivalence(NamedTuple):
    """Two one-sided tests: `p` is the larger of the two."""

    p: float
    p_lower: float
    p_upper: float


def summary(values: Sequence[float]) -> Summary:
    """Return size, mean and standard deviation of `values` (shape (n,), any unit).

    The deviations are taken from the mean first: sums of squares lose all digits of data such as
    NIST StRD NumAcc4. A spread that is only rounding becomes exactly 0.

    Raises:
        ValueError: if there is no value, or one that is not a usable number.
    """
    sample = np.asarray(values, dtype=float)
    if sample.size == 0:
        raise ValueError("A sample without values has no mean.")
    if not np.all(np.abs(sample) <= LARGEST_MAGNITUDE):
        raise ValueError(
            "A sample holds a value that is not a finite number; drop and count it first."
        )
    mean = float(np.mean(sample))
    if sample.size == 1:
        return Summary(1, mean, 0.0)
    sd = float(np.std(sample, ddof=1))
    return Summary(int(sample.size), mean, 0.0 if sd <= ZERO_SPREAD * max(1.0, abs(mean)) else sd)


def usable(values: Sequence[float | None]) -> list[float]:
    """Return the values that are there; the others are missing, for the caller to count.

    >>> usable([0.9, None, float("nan"), 0.8])
    [0.9, 0.8]
    """
    return [float(value) for value in values if value is not None and is_usable(value)]


def welch(baseline: Sequence[float], candidate: Sequence[float]) -> TTest:
    """Compare the means of two independent samples without assuming equal variances.

    Samples have shapes (n_b,) and (n_c,); the result is in their unit, candidate minus baseline.
    Without variation in either arm the permutation test answers instead of t (see `edge`).
    Source: Welch 1947, Biometrika 34:28-35; degrees of freedom by Welch and Satterthwaite.
    """
    if min(len(baseline), len(candidate)) == 0:
        return without_test(None, p=None, edge=Edge.N_LT_2)
    return welch_from_summaries(summary(baseline), summary(candidate))


def welch_from_summaries(baseline: Summary, candidate: Summary) -> TTest:
    """Do the same as `welch`, from size, mean and standard deviation of each arm."""
    delta = candidate.mean - baseline.mean
    if min(baseline.n, candidate.n) < 2:
        return without_test(delta, p=None, edge=Edge.N_LT_2)
    share_b = baseline.sd**2 / baseline.n
    share_c = candidate.sd**2 / candidate.n
    if share_b + share_c == 0:
        return _without_variation(baseline, candidate)
    se = sqrt(share_b + share_c)
    # The textbook's df divided by (a+c)^2 in numerator and denominator: no overflow, same number.
    weight = share_b / (share_b + share_c)
    df = 1 / (weight**2 / (baseline.n - 1) + (1 - weight) ** 2 / (candidate.n - 1))
    return t_test(delta, se=se, df=df)


def t_test(delta: float, *, se: float, df: float) -> TTest:
    """Return the two-sided t test of a difference with standard error `se` > 0."""
    t = delta / se
    return TTest(
        delta=delta,
        se=se,
        df=df,
        t=t,
        p=two_sided_t(t, df=df),
        ci95=t_interval(delta, se=se, df=df, confidence=0.95),
        ci90=t_interval(delta, se=se, df=df, confidence=0.90),
    )


def without_test(
    delta: float | None, *, p: float | None, edge: Edge, df: float | None = None
) -> TTest:
    """Return what is left of a t test that has no standard error."""
    return TTest(delta, None, df, None, p, None, None, edge)


def equivalence(delta: float, *, se: float, df: float, margin: float) -> Equivalence:
    """Test that `delta` lies inside ±`margin` (all in one unit) by two one-sided t tests.

    Source: Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657-680.
    """
    lower = t_tail((delta + margin) / se, df=df)
    upper = t_tail((margin - delta) / se, df=df)
    return Equivalence(p=max(lower, upper), p_lower=lower, p_upper=upper)


def is_zero_shift(delta: float, *, mean: float) -> bool:
    """Say whether a difference between two constants is only rounding."""
    return abs(delta) <= ZERO_SPREAD * max(1.0, abs(mean))


def _without_variation(baseline: Summary, candidate: Summary) -> TTest:
    delta = candidate.mean - baseline.mean
    if is_zero_shift(delta, mean=baseline.mean):
        return without_test(0.0, p=1.0, edge=Edge.ZERO_VARIANCE_EQUAL)
    p = _separation_p(baseline.n, candidate.n)
    return without_test(delta, p=p, edge=Edge.ZERO_VARIANCE_SEPARATED)


def _separation_p(n_b: int, n_c: int) -> float:
    """Return the permutation p of two arms that are constant and different.

    Of all ways to deal the values to the arms, only two separate them as far as this.
    """
    if min(n_b, n_c) > EXACT_COMBINATIONS:
        # Far below the smallest float, and the integer would take long to make.
        return 0.0
    return 2 / comb(n_b + n_c, n_b)
