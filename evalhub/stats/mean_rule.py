"""From two arms of a mean rubric to a verdict: what decides, what forbids, what is noted."""

from typing import NamedTuple

from evalhub.stats.absolute import FEWEST_EQUAL, FloorTest, mean_floor, rate_floor
from evalhub.stats.blocks import Block, paired_block, unpaired_block
from evalhub.stats.decision import Decision, decide
from evalhub.stats.missing import Missingness
from evalhub.stats.paired import BatchNoise
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Design, Kind, MeanRubric
from evalhub.stats.scores import Arm
from evalhub.stats.suite import SuiteChange

# A t test on ceilinged scores calls improvements too easily in small or lopsided arms.
IMPROVEMENT_FEWEST = 10
IMPROVEMENT_LARGEST_RATIO = 3
FEWEST_WITHOUT_NOTE = 5
T_TESTS = ("welch", "paired_t")


class MeanCase(NamedTuple):
    """Two arms in goodness units and what is known about them before any test."""

    baseline: Arm
    candidate: Arm
    rubric: MeanRubric
    change: SuiteChange
    design: Design | None
    noise: BatchNoise | None


def both_blocks(case: MeanCase) -> tuple[Block, Block | None]:
    """Return the unpaired and the paired comparison; both are always shown, one decides."""
    return (
        unpaired_block(case.baseline, case.candidate, rubric=case.rubric),
        paired_block(case.baseline, case.candidate, rubric=case.rubric, noise=case.noise),
    )


def evidence_gaps(case: MeanCase) -> tuple[Reason, ...]:
    """Return why the evidence cannot carry a verdict at all, if it cannot."""
    arms = (case.baseline, case.candidate)
    gaps: list[Reason] = []
    if any(arm.measured == 0 and 0 < arm.runs == arm.not_comparable for arm in arms):
        return (Reason.JUDGE_CHANGED,)
    if any(arm.agent_errors for arm in arms) and case.rubric.limits is None:
        return (Reason.NO_SCALE,)
    if case.baseline.measured == 0:
        gaps.append(Reason.NO_BASELINE)
    if case.candidate.measured == 0:
        gaps.append(Reason.NOT_JUDGED)
    if not gaps and case.design is None:
        gaps.append(Reason.SUITE_MISMATCH)
    return tuple(gaps)


def verdict_of(block: Block, *, rubric: MeanRubric) -> Decision:
    """Apply the rule to one block."""
    if block.p is None or block.delta is None:
        return Decision(Verdict.INCONCLUSIVE, (Reason.N_LT_2,))
    lower = block.lower95
    if lower is None and block.fewest >= FEWEST_EQUAL:
        # Without variation the difference is its own bound, once there are five to say so.
        lower = block.delta
    larger = max(block.n_baseline, block.n_candidate)
    lopsided = larger > IMPROVEMENT_LARGEST_RATIO * block.fewest
    return decide(
        delta=block.delta,
        p=block.p,
        lower95=lower,
        mde80=block.mde80,
        floor=rubric.min_effect,
        ni_margin=rubric.margin,
        alpha=rubric.alpha,
        may_improve=block.test not in T_TESTS
        or (block.fewest >= IMPROVEMENT_FEWEST and not lopsided),
    )


def ruled(case: MeanCase, block: Block, *, gaps: Missingness) -> Decision:
    """Return the verdict on the deciding block, held back by missing scores and a changed suite."""
    decision = _after_missing(case, verdict_of(block, rubric=case.rubric), gaps=gaps)
    if case.design is Design.PAIRED and case.change.is_changed:
        # A drop on the shared scenarios is real; the absence of one says nothing about the rest.
        kept = decision.verdict is Verdict.REGRESSION
        verdict = decision.verdict if kept else Verdict.INCONCLUSIVE
        return Decision(verdict, (Reason.SUITE_CHANGED, *decision.reasons))
    return decision


def notes(case: MeanCase, block: Block | None) -> tuple[Reason, ...]:
    """Return what a reader must know beside the verdict."""
    found: list[Reason] = []
    if block is not None and block.fewest < FEWEST_WITHOUT_NOTE:
        found.append(Reason.LOW_N)
    if block is not None and not block.has_variation:
        found.append(Reason.NO_VARIATION)
    limits = case.rubric.goodness_limits
    means = case.baseline.means.values()
    if limits is not None and means and max(means) <= limits.low:
        found.append(Reason.BASELINE_AT_WORST)
    if case.baseline.measured and case.noise is None:
        found.append(Reason.BATCH_UNKNOWN)
    if case.baseline.out_of_scale or case.candidate.out_of_scale:
        found.append(Reason.OUT_OF_SCALE)
    return tuple(found)


def absolute_floor(candidate: Arm, *, rubric: MeanRubric) -> FloorTest | None:
    """Test the candidate alone against the rubric's absolute floor, if it has one."""
    if rubric.abs_floor is None:
        return None
    floor = rubric.goodness(rubric.abs_floor)
    if rubric.kind is Kind.CONTINUOUS:
        return mean_floor(list(candidate.means.values()), floor=floor)
    measured = [runs for runs in candidate.values if runs]
    return rate_floor(
        [sum(runs) for runs in measured], runs=[len(runs) for runs in measured], floor=floor
    )


def _after_missing(case: MeanCase, decision: Decision, *, gaps: Missingness) -> Decision:
    if gaps.missing_baseline + gaps.missing_candidate == 0:
        return decision
    if decision.verdict is Verdict.REGRESSION:
        best = _as_if(case, for_candidate="best")
        robust = best is not None and best.verdict is Verdict.REGRESSION
        return Decision(decision.verdict, (Reason.ROBUST,) if robust else ())
    if not gaps.caps:
        return decision
    worst = _as_if(case, for_candidate="worst")
    if (
        decision.verdict is not Verdict.INCONCLUSIVE
        and worst is not None
        and worst.verdict in (Verdict.PASS, decision.verdict)
    ):
        return Decision(worst.verdict, (Reason.ROBUST, *worst.reasons))
    lost = case.baseline.not_comparable + case.candidate.not_comparable
    codes = (Reason.MISSING, Reason.NOT_COMPARABLE) if lost else (Reason.MISSING,)
    own = decision.reasons if decision.verdict is Verdict.INCONCLUSIVE else ()
    return Decision(Verdict.INCONCLUSIVE, (*codes, *own))


def _as_if(case: MeanCase, *, for_candidate: str) -> Decision | None:
    """Return the verdict if every missing run had gone the worst (or best) way; None without scale."""
    limits = case.rubric.goodness_limits
    if limits is None:
        return None
    worst, best = limits
    fill_b, fill_c = (best, worst) if for_candidate == "worst" else (worst, best)
    filled = case._replace(
        baseline=case.baseline.filled(fill_b), candidate=case.candidate.filled(fill_c)
    )
    unpaired, paired = both_blocks(filled)
    block = paired if case.design is Design.PAIRED else unpaired
    return None if block is None else verdict_of(block, rubric=case.rubric)
