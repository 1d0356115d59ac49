"""From two arms of a tail rubric to a verdict; larger is worse throughout."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalhub.stats.clusters import design_effect
from evalhub.stats.decision import FLOOR_TOLERANCE
from evalhub.stats.exceedance import (
    FEWEST_RUNS,
    Ceiling,
    Exceedance,
    absolute_non_inferiority_p,
    ceiling_test,
    exceedance,
    lowest_non_inferiority_p,
    non_inferiority_p,
    order_rank,
)
from evalhub.stats.missing import Missingness
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Sampling, TailRubric
from evalhub.stats.scores import Arm
from evalhub.stats.suite import FEWEST_SHARED, SuiteChange


class TailCase(NamedTuple):
    """Two arms (larger is worse), of which the relative test sees the shared scenarios only."""

    baseline: Arm
    candidate: Arm
    rubric: TailRubric
    change: SuiteChange


class RelativeRuling(NamedTuple):
    """The verdict of the relative test, with its tests where they could be made."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    test: Exceedance | None = None
    p_non_inferior: float | None = None


def comparable_arms(case: TailCase) -> tuple[Arm, Arm]:
    """Return the arms on the scenarios that both have, where both ran one fixed suite."""
    fixed = case.rubric.scenario_sampling is Sampling.FIXED_SUITE
    if not fixed or case.change.is_same or not case.change.shared:
        return case.baseline, case.candidate
    shared = set(case.change.shared)
    return case.baseline.only(shared), case.candidate.only(shared)


def relative_ruling(case: TailCase, *, gaps: Missingness | None) -> RelativeRuling:
    """Compare the candidate's tail with the baseline's."""
    blocked = _evidence_gaps(case)
    if blocked:
        return RelativeRuling(Verdict.INCONCLUSIVE, blocked)
    arm_b, arm_c = comparable_arms(case)
    runs_b, runs_c = arm_b.sorted_values, arm_c.sorted_values
    if min(len(runs_b), len(runs_c)) < FEWEST_RUNS:
        return RelativeRuling(Verdict.INCONCLUSIVE, (Reason.TAIL_N,))
    deff = _exceedance_deff(arm_b, arm_c, rubric=case.rubric)
    test = exceedance(runs_b, runs_c, q=case.rubric.q, deff=deff)
    if min(test.n_b, test.n_c) < FEWEST_RUNS:
        return RelativeRuling(Verdict.INCONCLUSIVE, (Reason.TAIL_N,))
    p_ni = _non_inferiority(test, runs_c, rubric=case.rubric)
    suite = (Reason.SUITE_CHANGED,) if _is_changed(case) else ()
    if is_tail_regression(test, rubric=case.rubric):
        return RelativeRuling(Verdict.REGRESSION, suite, test, p_ni)
    missing = (Reason.MISSING,) if gaps is not None and gaps.caps else ()
    shown = p_ni is not None and p_ni < case.rubric.alpha
    if shown and not suite and not missing:
        return RelativeRuling(Verdict.PASS, (), test, p_ni)
    reasons = (*suite, *missing) if shown else (*suite, *missing, *_not_shown(test, case.rubric))
    return RelativeRuling(Verdict.INCONCLUSIVE, reasons, test, p_ni)


def is_tail_regression(test: Exceedance, *, rubric: TailRubric) -> bool:
    """Say whether the tail is significantly and materially worse."""
    rise = test.quantile_c - test.quantile_b
    # For values below 0 a share of the value would be a gain; its size is meant.
    floor = max(rubric.rel_tol * abs(test.quantile_b), rubric.abs_tol)
    return test.p_tail < rubric.alpha and rise > 0 and rise >= floor - FLOOR_TOLERANCE


def ceiling_ruling(candidate: Arm, *, rubric: TailRubric) -> Ceiling | None:
    """Test the candidate alone against the rubric's ceiling, if it has one and there are runs."""
    runs = candidate.sorted_values
    if rubric.ceiling is None or len(runs) == 0:
        return None
    limit = rubric.sign * rubric.ceiling
    over = int(np.count_nonzero(runs > limit))
    return ceiling_test(over, len(runs), q=rubric.q, alpha=rubric.alpha)


def _evidence_gaps(case: TailCase) -> tuple[Reason, ...]:
    arms = (case.baseline, case.candidate)
    if any(arm.measured == 0 and 0 < arm.runs == arm.not_comparable for arm in arms):
        return (Reason.JUDGE_CHANGED,)
    gaps: list[Reason] = []
    if case.baseline.measured == 0:
        gaps.append(Reason.NO_BASELINE)
    if case.candidate.measured == 0:
        gaps.append(Reason.NOT_JUDGED)
    few_shared = len(case.change.shared) < FEWEST_SHARED and not case.change.is_same
    if not gaps and few_shared and case.rubric.scenario_sampling is Sampling.FIXED_SUITE:
        gaps.append(Reason.SUITE_MISMATCH)
    return tuple(gaps)


def _is_changed(case: TailCase) -> bool:
    fixed = case.rubric.scenario_sampling is Sampling.FIXED_SUITE
    return fixed and case.change.is_changed


def _exceedance_deff(baseline: Arm, candidate: Arm, *, rubric: TailRubric) -> float:
    """Return by how much shared scenarios inflate the exceedance counts.

    On a fixed suite flattened runs keep the size of the test; scenarios drawn anew do not.
    """
    if rubric.scenario_sampling is Sampling.FIXED_SUITE:
        return 1.0
    runs_b = baseline.sorted_values
    threshold = runs_b[order_rank(len(runs_b), rubric.q) - 1]
    return max(_arm_deff(arm, threshold=threshold) for arm in (baseline, candidate))


def _arm_deff(arm: Arm, *, threshold: float) -> float:
    measured = [runs for runs in arm.values if runs]
    if len(measured) < 2:
        # All runs of one drawn scenario are one observation.
        return float(arm.measured)
    return design_effect(
        [sum(value > threshold for value in runs) for runs in measured],
        runs=[len(runs) for runs in measured],
    )


def _non_inferiority(
    test: Exceedance, runs_c: NDArray[np.float64], *, rubric: TailRubric
) -> float | None:
    relative = non_inferiority_p(test, runs_c, tolerance=rubric.ni_tol)
    if relative is None and rubric.abs_tol > 0:
        return absolute_non_inferiority_p(test, runs_c, tolerance=rubric.abs_tol)
    return relative


def _not_shown(test: Exceedance, rubric: TailRubric) -> tuple[Reason, ...]:
    attainable = lowest_non_inferiority_p(test) < rubric.alpha
    return (
        Reason.SAFETY_NOT_SHOWN,
        Reason.BORDERLINE if attainable else Reason.UNDERPOWERED,
    )
