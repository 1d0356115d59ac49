"""Runs that share a scenario are not independent: clustered errors and the Rao-Scott correction."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np


class ClusteredMean(NamedTuple):
    """The mean of runs with three standard errors; `deff` is (cr1 / iid) squared."""

    mean: float
    se_cr1: float | None
    se_cr0: float
    se_iid: float | None
    deff: float | None
    clusters: int


def clustered_mean(values: Sequence[float], *, clusters: Sequence[str]) -> ClusteredMean:
    """Return the mean of rows (shape (N,)) with standard errors clustered by scenario.

    For display beside one score; `cr0` is Miller 2024 (arXiv 2411.00640), `cr1` adds G/(G-1) as
    Inspect AI does. With a single cluster (or value) cr1 (or iid) is not defined: None.

    Raises:
        ValueError: if there are no rows, or not one cluster name for each.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"{len(values)} values need as many cluster names, not {len(clusters)}.")
    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean())
    _, codes = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    sums = np.bincount(codes, weights=sample - mean)
    count = len(sums)
    cr0 = sqrt(float(np.sum(sums**2))) / sample.size
    cr1 = cr0 * sqrt(count / (count - 1)) if count > 1 else None
    iid = float(sample.std(ddof=1)) / sqrt(sample.size) if sample.size > 1 else None
    deff = (cr1 / iid) ** 2 if cr1 is not None and iid else None
    return ClusteredMean(mean, cr1, cr0, iid, deff, count)


def design_effect(passes: Sequence[float], *, runs: Sequence[int]) -> float:
    """Return by how much clustering inflates the variance of a pass rate.

    `passes` (shape (G,), may be fractional) of `runs` (shape (G,)) in each scenario. Between 1 and
    the largest number of runs; where nothing varies (all or none pass) it is that largest number,
    because the data cannot show that the runs are independent.
    Source: Rao and Scott 1992, Biometrics 48:577-585.

    Raises:
        ValueError: with fewer than two scenarios, or a scenario without runs.
    """
    passed = np.asarray(passes, dtype=float)
    counts = np.asarray(runs, dtype=float)
    if len(passed) < 2 or len(passed) != len(counts) or np.any(counts < 1):
        raise ValueError("A design effect needs at least two scenarios, each with a run.")
    groups = len(passed)
    total = float(counts.sum())
    largest = float(counts.max())
    rate = float(passed.sum()) / total
    binomial = rate * (1 - rate) / total
    if binomial <= 0:
        return largest
    clustered = groups / (groups - 1) * float(np.sum((passed - counts * rate) ** 2)) / total**2
    return min(largest, max(1.0, clustered / binomial))
