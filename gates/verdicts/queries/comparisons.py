"""Every comparison of a plan: rubric by rubric, overall and by category, confirmed as a family."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.policy import Policy
from evalhub.stats.comparison import compare_means, compare_tails
from evalhub.stats.fold import confirm
from evalhub.stats.outcomes import Confirmation, MeanComparison, TailComparison
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import RunScore, TailRubric
from gates.verdicts.queries.comparators import Comparator, Comparison
from gates.verdicts.queries.evidence import Evidence
from gates.verdicts.queries.rubrics import category_rubric, stats_rubric, worst_value
from gates.verdicts.queries.scoring import RESULT_STAGE, Matched, Scoring, matched_scores
from gates.verdicts.queries.sides import ArmRun, arm_runs, measured_outcomes

Outcome = MeanComparison | TailComparison


class Context(NamedTuple):
    """What all comparisons of one plan are made from."""

    document: PlanDocument
    policy: Policy
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One verdict: a rubric of an arm, in one slice, against one comparator."""

    rubric: str
    category: str | None
    arm: str
    comparator: Comparator
    outcome: Outcome
    gates: bool
    """Whether the verdict takes part in the conclusion."""
    confirmation: Confirmation | None = None
    extra_reasons: tuple[Reason, ...] = ()

    @property
    def name(self) -> str:
        """The verdict's name within its plan, as the fold and the sentences use it."""
        where = "" if self.category is None else f" in {self.category}"
        return f"{self.rubric}{where} ({self.arm}, {self.comparator.comparison})"

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict

    @property
    def reasons(self) -> tuple[Reason, ...]:
        own = self.outcome.reasons
        return (*(r for r in self.extra_reasons if r not in own), *own)


class Slice(NamedTuple):
    """The scenarios that one verdict is about; all of them without a category."""

    category: str | None
    scenarios: frozenset[str]


def judged(arm: str, comparator: Comparator, context: Context) -> list[Judged]:
    """Return the verdicts of one arm against one comparator, without confirmation."""
    measured = measured_outcomes(context.policy.count_against_agent)
    runs_c = arm_runs(comparator.candidate, context.evidence, measured=measured)
    runs_b = _baseline_runs(comparator, context)
    slices = _slices(comparator, [*runs_c, *runs_b])
    found = []
    for name in context.document.rubrics:
        matched = _matched(name, runs_b, runs_c, context=context)
        for part in slices:
            outcome = _outcome(name, part, matched, context=context)
            found.append(
                Judged(
                    rubric=name,
                    category=part.category,
                    arm=arm,
                    comparator=comparator,
                    outcome=outcome,
                    gates=_gates(name, part, comparator.comparison, policy=context.policy),
                    extra_reasons=_extra_reasons(comparator, matched),
                )
            )
    return found


def advisory(arm: str, comparator: Comparator, context: Context) -> list[Judged]:
    """Return the verdicts on what is only shown: advisory lanes and scenarios. They never gate."""
    measured = measured_outcomes(context.policy.count_against_agent)
    runs_c = arm_runs(comparator.candidate, context.evidence, measured=measured, advisory=True)
    if not any(run.run_id is not None for run in runs_c):
        return []
    scenarios = frozenset(run.scenario for run in runs_c)
    both = [
        *_baseline_runs(comparator, context),
        *_baseline_runs(comparator, context, advisory_ones=True),
    ]
    runs_b = [run for run in both if run.scenario in scenarios]
    return [
        Judged(
            rubric=name,
            category=None,
            arm=arm,
            comparator=comparator,
            outcome=_outcome(name, Slice(None, scenarios), matched, context=context),
            gates=False,
            extra_reasons=_extra_reasons(comparator, matched),
        )
        for name in context.document.rubrics
        for matched in [_matched(name, runs_b, runs_c, context=context)]
    ]


def confirmed(found: Sequence[Judged], *, policy: Policy) -> list[Judged]:
    """Return the verdicts with those that gate confirmed as families, one for each comparison."""
    result = list(found)
    for comparison in Comparison:
        family = [
            index
            for index, one in enumerate(found)
            if one.gates and one.comparator.comparison is comparison
        ]
        confirmations = confirm(
            [found[index].outcome for index in family],
            method=policy.multiplicity,
            alpha=policy.alpha,
        )
        for index, confirmation in zip(family, confirmations, strict=True):
            result[index] = replace(found[index], confirmation=confirmation)
    return result


def _baseline_runs(
    comparator: Comparator, context: Context, *, advisory_ones: bool = False
) -> list[ArmRun]:
    if comparator.baseline is None:
        return []
    measured = measured_outcomes(context.policy.count_against_agent)
    return arm_runs(
        comparator.baseline, context.evidence, measured=measured, advisory=advisory_ones
    )


def _slices(comparator: Comparator, runs: Iterable[ArmRun]) -> list[Slice]:
    """Return the overall slice and one for each category of the candidate's plan."""
    categories = {}
    for side in (comparator.baseline, comparator.candidate):
        for member in side.members if side is not None else ():
            categories.update({s.id: s.category for s in member.document.scenarios})
    own = comparator.candidate.members[0].document
    names = sorted({scenario.category for scenario in own.scenarios})
    scenarios = {run.scenario for run in runs}
    slices = [
        Slice(name, frozenset(s for s in scenarios if categories.get(s) == name)) for name in names
    ]
    return [Slice(None, frozenset(scenarios)), *(part for part in slices if part.scenarios)]


def _matched(
    name: str, runs_b: Sequence[ArmRun], runs_c: Sequence[ArmRun], *, context: Context
) -> Matched:
    rule = context.policy.rubrics[name]
    stages = tuple(rule.stages) if rule.source == "judge" else (RESULT_STAGE,)
    planned = {str(s.stage): s.fingerprint for s in context.document.stages if s.rubric == name}
    scoring = Scoring(
        stages=stages,
        planned=planned,
        values=context.evidence.values.get(name, {}),
        worst=worst_value(rule),
    )
    return matched_scores(runs_b, runs_c, scoring=scoring)


def _outcome(name: str, part: Slice, matched: Matched, *, context: Context) -> Outcome:
    rubric = stats_rubric(name, context.policy)
    scores_b, scores_c = matched.baseline, matched.candidate
    if part.category is not None:
        rubric = category_rubric(rubric, context.policy.rubrics[name])
        scores_b, scores_c = _within(scores_b, part), _within(scores_c, part)
    if isinstance(rubric, TailRubric):
        return compare_tails(scores_b or None, scores_c, rubric=rubric)
    return compare_means(scores_b or None, scores_c, rubric=rubric)


def _within(scores: Sequence[RunScore], part: Slice) -> list[RunScore]:
    return [score for score in scores if score.scenario in part.scenarios]


def _gates(name: str, part: Slice, comparison: Comparison, *, policy: Policy) -> bool:
    rule = policy.rubrics[name]
    if comparison is Comparison.FAULT:
        return part.category is None and rule.fault_gate == "block"
    if rule.gate != "block":
        return False
    # The tail of a category has too few runs to say anything, so it is only shown.
    return part.category is None or (policy.gate_by == "category" and rule.kind != "tail")


def _extra_reasons(comparator: Comparator, matched: Matched) -> tuple[Reason, ...]:
    gap = () if comparator.gap is None else (comparator.gap,)
    return (*gap, Reason.JUDGE_CHANGED) if matched.judge_changed else gap
