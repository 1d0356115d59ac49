"""How much of a score is the judge: variance components, intraclass correlation, agreement."""

from collections.abc import Sequence
from math import isnan, sqrt
from typing import NamedTuple

import numpy as np


class NestedComponents(NamedTuple):
    """Mean squares and variances of scenarios, runs and judge repeats, in that order.

    `raw` variances may be negative (less variation than the level below explains); `truncated`
    ones are for display. None where a level has no degrees of freedom.
    """

    mean_squares: tuple[float | None, float | None, float | None]
    raw: tuple[float | None, float | None, float | None]
    truncated: tuple[float | None, float | None, float | None]


class OneWay(NamedTuple):
    """Between and within variance and the reliability of one judgment, ICC(1)."""

    var_between: float
    var_within: float
    icc1: float | None


class Kappa(NamedTuple):
    """Agreement beyond chance and its asymptotic standard error; None where chance is certain."""

    kappa: float | None
    ase: float | None


class JudgedRun(NamedTuple):
    """One judge repeat of one run of one scenario."""

    scenario: str
    run: str
    value: float


def nested_components(rows: Sequence[JudgedRun]) -> NestedComponents:
    """Split the variance of judged runs into scenario, run and judge (repeats may be unbalanced).

    Source: Henderson's method I (Searle, Casella and McCulloch 1992, Variance Components, ch. 5).

    Raises:
        ValueError: if there are no rows.
    """
    if not rows:
        raise ValueError("No judgments have no variance.")
    cells: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        cells.setdefault(row.scenario, {}).setdefault(row.run, []).append(row.value)
    groups = [[np.asarray(repeats) for repeats in runs.values()] for runs in cells.values()]
    total = len(rows)
    run_count = sum(len(runs) for runs in groups)
    grand = float(np.mean([row.value for row in rows]))
    sizes = [sum(len(repeats) for repeats in runs) for runs in groups]
    means = [float(np.concatenate(runs).mean()) for runs in groups]
    within = sum(float(((rep - rep.mean()) ** 2).sum()) for runs in groups for rep in runs)
    between_runs = sum(
        len(rep) * (float(rep.mean()) - mean) ** 2
        for runs, mean in zip(groups, means, strict=True)
        for rep in runs
    )
    between = sum(size * (mean - grand) ** 2 for size, mean in zip(sizes, means, strict=True))
    squares = [sum(len(rep) ** 2 for rep in runs) for runs in groups]
    weighted = sum(square / size for square, size in zip(squares, sizes, strict=True))
    ms_judge = _ratio(within, total - run_count)
    ms_run = _ratio(between_runs, run_count - len(groups))
    ms_scenario = _ratio(between, len(groups) - 1)
    k1 = _ratio(total - weighted, run_count - len(groups))
    k2 = _ratio(weighted - sum(squares) / total, len(groups) - 1)
    k3 = _ratio(total - sum(size**2 for size in sizes) / total, len(groups) - 1)
    v_judge = ms_judge
    v_run = _component(ms_run, v_judge, k1)
    v_scenario = None
    if v_run is not None and k2 is not None:
        v_scenario = _component(ms_scenario, (v_judge or 0.0) + k2 * v_run, k3)
    raw = (v_scenario, v_run, v_judge)
    shown = tuple(None if part is None else max(0.0, part) for part in raw)
    return NestedComponents((ms_scenario, ms_run, ms_judge), raw, (shown[0], shown[1], shown[2]))


def one_way(groups: Sequence[Sequence[float]]) -> OneWay:
    """Return ICC(1) of targets (rows) judged several times, and the variances behind it.

    Source: Shrout and Fleiss 1979, Psychol. Bull. 86:420-428.

    Raises:
        ValueError: with fewer than two targets, or none that was judged twice.
    """
    rows = [
        JudgedRun(str(group), str(group), value)
        for group, values in enumerate(groups)
        for value in values
    ]
    if len(groups) < 2 or len(rows) <= len(groups):
        raise ValueError("Reliability needs two targets, and one that was judged twice.")
    sizes = np.array([len(values) for values in groups], dtype=float)
    means = np.array([np.mean(values) for values in groups])
    grand = float(np.sum(sizes * means) / sizes.sum())
    within = sum(
        float(np.sum((np.asarray(values) - mean) ** 2))
        for values, mean in zip(groups, means, strict=True)
    )
    var_within = within / (sizes.sum() - len(groups))
    ms_between = float(np.sum(sizes * (means - grand) ** 2)) / (len(groups) - 1)
    per_group = float(sizes.sum() - np.sum(sizes**2) / sizes.sum()) / (len(groups) - 1)
    var_between = (ms_between - var_within) / per_group
    whole = var_between + var_within
    return OneWay(var_between, float(var_within), var_between / whole if whole > 0 else None)


def spearman_brown(icc1: float, *, repeats: float) -> float:
    """Return the reliability of the mean of `repeats` judgments.

    Raises:
        ValueError: if the reliability of one is not between -1 (excluded) and 1, or repeats below 1.

    >>> round(spearman_brown(0.5, repeats=3), 12)
    0.75
    """
    divisor = 1 + (repeats - 1) * icc1
    if not -1 < icc1 <= 1 or repeats < 1 or divisor <= 0:
        raise ValueError(f"{repeats} repeats of reliability {icc1} have no reliability.")
    return repeats * icc1 / divisor


def cohen_kappa(table: Sequence[Sequence[float]]) -> Kappa:
    """Return Cohen's kappa of two judges from their table of counts (shape (c, c)).

    The standard error is that of Fleiss, Cohen and Everitt 1969, Psychol. Bull. 72:323-327.

    Raises:
        ValueError: if the table is not square or holds no counts.
    """
    counts = np.asarray(table, dtype=float)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or counts.sum() <= 0:
        raise ValueError("Kappa needs a square table with counts.")
    share = counts / counts.sum()
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    observed, expected = float(np.trace(share)), float(rows @ columns)
    if expected >= 1:
        return Kappa(None, None)
    kappa = (observed - expected) / (1 - expected)
    diagonal = np.diag(share)
    on = float(np.sum(diagonal * (1 - (rows + columns) * (1 - kappa)) ** 2))
    weights = share * (rows[None, :] + columns[:, None]) ** 2
    off = (1 - kappa) ** 2 * float(weights.sum() - np.trace(weights))
    rest = (kappa - expected * (1 - kappa)) ** 2
    variance = max(0.0, on + off - rest) / ((1 - expected) ** 2 * counts.sum())
    return Kappa(kappa, sqrt(variance))


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> Kappa:
    """Return Fleiss' kappa of many judges: `counts[i][j]` judges put target i into category j.

    Source: Fleiss 1971, Psychol. Bull. 76:378-382. No standard error.

    Raises:
        ValueError: unless every target has the same number of judges, two or more.
    """
    table = np.asarray(counts, dtype=float)
    judges = table.sum(axis=1) if table.ndim == 2 and table.size else np.zeros(1)
    if judges[0] < 2 or np.any(judges != judges[0]):
        raise ValueError("Every target needs the same number of judges, two or more.")
    n = float(judges[0])
    observed = float(np.mean((np.sum(table**2, axis=1) - n) / (n * (n - 1))))
    expected = float(np.sum((table.sum(axis=0) / table.sum()) ** 2))
    if expected >= 1:
        return Kappa(None, None)
    return Kappa((observed - expected) / (1 - expected), None)


def flip_rate(passes: Sequence[int], *, judged: Sequence[int]) -> float | None:
    """Return how often two judgments of one run disagree: passes of `judged`, run by run.

    Only runs judged twice or more can tell; None without one.

    Raises:
        ValueError: if a run has more passes than judgments, or the lengths differ.
    """
    if len(passes) != len(judged) or any(
        not 0 <= x <= n for x, n in zip(passes, judged, strict=True)
    ):
        raise ValueError("Each run needs its passes and its number of judgments.")
    rates = [2 * x * (n - x) / (n * (n - 1)) for x, n in zip(passes, judged, strict=True) if n > 1]
    return sum(rates) / len(rates) if rates else None


def _ratio(value: float, freedom: float) -> float | None:
    return float(value) / freedom if freedom > 0 else None


def _component(
    mean_square: float | None, below: float | None, factor: float | None
) -> float | None:
    if mean_square is None or below is None or not factor or isnan(factor):
        return None
    return (mean_square - below) / factor
