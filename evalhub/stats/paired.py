"""Two arms on the same scenarios: the paired t test."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from evalhub.stats.intervals import t_interval, two_sided_t
from evalhub.stats.welch import Edge, Summary, TTest, is_zero_shift, summary


def differences(baseline: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Return candidate minus baseline, scenario by scenario (both of shape (n,), same order).

    Raises:
        ValueError: if the arms have different lengths.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"Pairs need two arms of one length, not {len(baseline)} and {len(candidate)}.")
    return [float(d) for d in np.asarray(candidate, dtype=float) - np.asarray(baseline, dtype=float)]


def paired_t(baseline: Sequence[float], candidate: Sequence[float]) -> TTest:
    """Compare the means of two arms by their differences (shape (n,) each, same order).

    The standard error is Miller's clustered paired one (arXiv 2411.00640, section 4.2). When all
    differences are equal, the sign-flip permutation test answers instead of t (see `edge`).

    Raises:
        ValueError: if the arms have different lengths, or hold something that is not a number.
    """
    pairs = differences(baseline, candidate)
    if not pairs:
        return TTest(None, None, None, None, None, None, None, Edge.N_LT_2)
    return paired_from_summary(summary(pairs), mean=float(np.mean(baseline)))


def paired_from_summary(pairs: Summary, *, mean: float, extra_variance: float = 0.0) -> TTest:
    """Do the same as `paired_t`, from the summary of the differences.

    `mean` is the baseline's mean, against which a shift counts as rounding. `extra_variance` is
    variance of the mean difference that the scenarios do not show (see `batch`); it comes with
    its own degrees of freedom, so the caller replaces `df` by `paired_with_batch`.
    """
    del extra_variance
    if pairs.n < 2:
        return TTest(pairs.mean, None, None, None, None, None, None, Edge.N_LT_2)
    if pairs.sd == 0 or is_zero_shift(pairs.sd, mean=mean):
        return _without_variation(pairs, mean=mean)
    return t_test_of(pairs.mean, se=pairs.sd / sqrt(pairs.n), df=pairs.n - 1)
