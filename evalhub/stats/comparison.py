"""One call per rubric and slice: what a verdict says, why, and how it is stored and told.

The only module of this package that the gate calls for a comparison; the other half is `fold`.
"""

from collections.abc import Sequence

from evalhub.stats.absolute import FloorVerdict
from evalhub.stats.blocks import Block
from evalhub.stats.exceedance import tail_information
from evalhub.stats.mean_rule import (
    MeanCase,
    absolute_floor,
    both_blocks,
    evidence_gaps,
    notes,
    ruled,
)
from evalhub.stats.missing import missing_in
from evalhub.stats.outcomes import Confirmation, MeanComparison, TailComparison
from evalhub.stats.quantiles import quantile
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.records import mean_record, tail_record
from evalhub.stats.rubric import Design, MeanRubric, RunScore, TailRubric
from evalhub.stats.scores import baseline_noise, mean_arm, tail_arm
from evalhub.stats.sentences import mean_sentence, tail_sentence
from evalhub.stats.suite import deciding_design, suite_change
from evalhub.stats.tail_rule import (
    TailCase,
    ceiling_ruling,
    comparable_arms,
    relative_ruling,
)

__all__ = [
    "MeanComparison",
    "TailComparison",
    "compare_means",
    "compare_tails",
    "sentence",
    "to_record",
]


def compare_means(
    baseline: Sequence[RunScore] | None, candidate: Sequence[RunScore], *, rubric: MeanRubric
) -> MeanComparison:
    """Compare two arms on one mean rubric; None for `baseline` means that there is none.

    Runs are averaged per scenario (all runs count, whatever attempt they came from), scenarios
    have equal weight and are the unit. The order of the runs does not matter. The absolute floor
    is tested whether or not there is a baseline. Rules: see `mean_rule` and `decision`.
    """
    arm_b = mean_arm(baseline or (), rubric=rubric)
    arm_c = mean_arm(candidate, rubric=rubric)
    change = suite_change(arm_b, arm_c)
    has_ids = arm_b.has_ids and arm_c.has_ids
    design = deciding_design(change, rubric=rubric, has_ids=has_ids)
    noise = baseline_noise(baseline or (), rubric=rubric)
    case = MeanCase(arm_b, arm_c, rubric, change, design, noise)
    unpaired, paired = both_blocks(case)
    gaps = evidence_gaps(case)
    chosen = paired if design is Design.PAIRED else unpaired
    decided = None if gaps else chosen
    missing = missing_in(arm_b, arm_c, max_missing=rubric.max_missing)
    verdict, reasons = Verdict.INCONCLUSIVE, gaps
    if decided is not None and missing is not None:
        verdict, reasons = ruled(case, decided, gaps=missing)
    floor = absolute_floor(arm_c, rubric=rubric)
    if floor is not None and floor.verdict is FloorVerdict.BELOW_FLOOR:
        reasons = (*reasons, Reason.BELOW_FLOOR)
    shown = decided or Block(design=Design.UNPAIRED, test="none", n_baseline=0, n_candidate=0)
    return MeanComparison(
        rubric=rubric,
        verdict=verdict,
        reasons=(*reasons, *notes(case, decided)),
        decided_by=None if decided is None else decided.design,
        unpaired=unpaired,
        paired=paired,
        n_baseline=unpaired.n_baseline,
        n_candidate=unpaired.n_candidate,
        n_pairs=0 if paired is None else paired.fewest,
        runs_baseline=arm_b.runs,
        runs_candidate=arm_c.runs,
        missing_baseline=arm_b.missing_runs,
        missing_candidate=arm_c.missing_runs,
        missingness=missing,
        agent_errors_baseline=arm_b.agent_errors,
        agent_errors_candidate=arm_c.agent_errors,
        abs_floor=floor,
        added=change.added,
        removed=change.removed,
        changed=change.changed,
        mean_baseline=shown.mean_baseline,
        mean_candidate=shown.mean_candidate,
        delta=shown.delta,
        se=shown.se,
        df=shown.df,
        statistic=shown.statistic,
        p=shown.p,
        ci95=shown.ci95,
        ci90=shown.ci90,
        mde80=shown.mde80,
        n_required=shown.n_required,
        p_floor=shown.p_floor,
        tost_p=shown.tost_p,
    )


def compare_tails(
    baseline: Sequence[RunScore] | None, candidate: Sequence[RunScore], *, rubric: TailRubric
) -> TailComparison:
    """Compare two arms on one tail rubric; None for `baseline` means that there is none.

    Runs are the unit. With fewer than 20 in an arm there is no relative test (TAIL_N). The ceiling
    is tested on the candidate alone, whether or not there is a baseline. Rules: see `tail_rule`.
    """
    arm_b = tail_arm(baseline or (), sign=rubric.sign)
    arm_c = tail_arm(candidate, sign=rubric.sign)
    case = TailCase(arm_b, arm_c, rubric, suite_change(arm_b, arm_c))
    missing = missing_in(arm_b, arm_c, max_missing=rubric.max_missing)
    ruling = relative_ruling(case, gaps=missing)
    ceiling = ceiling_ruling(arm_c, rubric=rubric)
    breached = ceiling is not None and ceiling.verdict == "CEILING_BREACH"
    runs_b, runs_c = (arm.sorted_values for arm in comparable_arms(case))
    information = None
    if ruling.test is not None:
        information = tail_information(
            ruling.test.n_b, ruling.test.n_c, q=rubric.q, alpha=rubric.alpha
        )
    return TailComparison(
        rubric=rubric,
        verdict=ruling.verdict,
        reasons=(*ruling.reasons, *((Reason.CEILING_BREACH,) if breached else ())),
        test=ruling.test,
        p_non_inferior=ruling.p_non_inferior,
        ceiling=ceiling,
        information=information,
        n_baseline=len(arm_b.means),
        n_candidate=len(arm_c.means),
        runs_baseline=arm_b.runs,
        runs_candidate=arm_c.runs,
        missing_baseline=arm_b.missing_runs,
        missing_candidate=arm_c.missing_runs,
        missingness=missing,
        quantile_baseline=rubric.sign * quantile(runs_b, rubric.q) if len(runs_b) else None,
        quantile_candidate=rubric.sign * quantile(runs_c, rubric.q) if len(runs_c) else None,
        added=case.change.added,
        removed=case.change.removed,
        changed=case.change.changed,
    )


def to_record(
    comparison: MeanComparison | TailComparison, *, confirmation: Confirmation | None = None
) -> dict[str, object]:
    """Return what a decision record stores of a comparison: JSON-ready, floats at 12 digits.

    What is not defined is null; nothing is ever NaN or infinite. `p_holm` and `confirmed` are null
    unless the rubric's `confirmation` is given. Digests, slice and engine are the caller's to add.
    """
    if isinstance(comparison, MeanComparison):
        return mean_record(comparison, confirmation=confirmation)
    return tail_record(comparison, confirmation=confirmation)


def sentence(comparison: MeanComparison | TailComparison, *, name: str) -> str:
    """Return one plain sentence about a comparison, for the check and the page.

    `name` is what the reader calls the rubric; it is not escaped here.
    """
    if isinstance(comparison, MeanComparison):
        return mean_sentence(comparison, name=name)
    return tail_sentence(comparison, name=name)
