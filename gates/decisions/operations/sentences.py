"""A conclusion in plain words: one line for the check's title, and the lines below it."""

from collections.abc import Sequence

from evalhub.stats.comparison import sentence
from evalhub.stats.outcomes import MeanComparison, TailComparison
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Design
from evalhub.stats.sentences import number
from gates.decisions.operations.judgment import Judgment
from gates.verdicts.queries.comparators import Comparison
from gates.verdicts.queries.comparisons import Judged
from gates.verdicts.queries.evaluation import Evaluation
from gates.verdicts.queries.findings import Code, Effect, Finding

LONGEST_TITLE = 300
_SUBJECTS_SHOWN = 5

_COMPARED_WITH = {
    Comparison.CONCURRENT: "compared with the baseline that ran beside it",
    Comparison.HISTORY: "compared with the adopted baseline",
    Comparison.RELEASE: "compared with the release",
    Comparison.FAULT: "compared with the same agent without faults",
}

_DATA_WORDS = {
    Reason.NO_BASELINE: "there is no baseline to compare with",
    Reason.NOT_JUDGED: "some rubrics have no score",
    Reason.JUDGE_CHANGED: "the judge is not the one that judged the baseline",
    Reason.NOT_COMPARABLE: "the baseline ran in another environment or was judged otherwise",
    Reason.NO_SCALE: "the agent crashed on a rubric without a scale",
    Reason.SUITE_CHANGED: "too few scenarios are the same as the baseline's",
    Reason.SUITE_MISMATCH: "too few scenarios can be compared",
    Reason.MISSING: "too many scores are missing",
    Reason.N_LT_2: "too few scenarios were measured",
    Reason.TAIL_N: "too few runs for a tail",
    Reason.NOTHING_BLOCKING: "nothing was compared that could block",
}

_FINDING_WORDS = {
    Code.MISSING: "{n} pieces of evidence are missing",
    Code.UNMEASURED_LANE: "{n} lanes measured nothing",
    Code.UNSEALED_LANE: "{n} lanes never finished",
    Code.UNREADABLE_SEGMENT: "{n} lanes sent unreadable segments",
    Code.PURGED: "records of {n} attempts were removed",
    Code.JUDGE_CHANGED: "{n} judging stages are not those of the plan",
    Code.ENVIRONMENT_DIFFERS: "{n} environments are not those of the plan",
    Code.OUT_OF_SCALE: "{n} scores are outside their scale",
    Code.UNMEASURED: "{n} runs measured nothing at first",
    Code.SUITE_CHANGED: "{n} scenarios are gone or changed",
    Code.ARMS_CHANGED: "{n} arms or conditions of the baseline are gone or changed",
    Code.JUDGE_REPLACED: "{n} judging stages are not those of the baseline",
    Code.ISOLATION_VIOLATED: "lanes were not isolated ({n} cases)",
    Code.ISOLATION_UNPROVEN: "isolation is not proven ({n} cases)",
}
_SINGULAR = {
    Code.MISSING: "1 piece of evidence is missing",
    Code.UNMEASURED_LANE: "1 lane measured nothing",
    Code.UNSEALED_LANE: "1 lane never finished",
    Code.UNREADABLE_SEGMENT: "1 lane sent an unreadable segment",
    Code.PURGED: "records of 1 attempt were removed",
    Code.JUDGE_CHANGED: "1 judging stage is not that of the plan",
    Code.ENVIRONMENT_DIFFERS: "1 environment is not that of the plan",
    Code.OUT_OF_SCALE: "1 score is outside its scale",
    Code.UNMEASURED: "1 run measured nothing at first",
    Code.SUITE_CHANGED: "1 scenario is gone or changed",
    Code.ARMS_CHANGED: "1 arm or condition of the baseline is gone or changed",
    Code.JUDGE_REPLACED: "1 judging stage is not that of the baseline",
    Code.ISOLATION_VIOLATED: "lanes were not isolated (1 case)",
    Code.ISOLATION_UNPROVEN: "isolation is not proven (1 case)",
}


def title_of(judgment: Judgment, evaluation: Evaluation) -> str:
    """Return the conclusion in one line, what weighs most first.

    For example: "2 of 3 rubrics pass; resolved is worse by 0.14 (0.08 to 0.21) on 26 scenarios".
    """
    gating = [draft.judged for draft in evaluation.gating]
    heavy = [f for f in evaluation.findings if f.effect is Effect.FAILURE]
    light = [f for f in evaluation.findings if f.effect is Effect.ACTION_REQUIRED]
    harm = [one for one in gating if one.name in _harmful(judgment)]
    parts = [
        *(_counted(f) for f in heavy),
        *_passing(gating, judgment),
        *(_harm(one, evaluation, confirmed=one.name in judgment.fold.failing) for one in harm),
        *(_DATA_WORDS[reason] for reason in judgment.data_reasons),
        *(_counted(f) for f in light),
        *_weak(gating, judgment),
        *_left_out(gating, judgment),
    ]
    return _cut("; ".join(parts), LONGEST_TITLE)


def lines_of(judgment: Judgment, evaluation: Evaluation) -> list[str]:
    """Return the sentences below the title: findings, deciding verdicts, what was left out."""
    lines = [
        f"{finding.detail.rstrip('.')}: {_listed(finding.subjects)}."
        for finding in evaluation.findings
        if finding.effect is not Effect.NOTE
    ]
    gating = [draft.judged for draft in evaluation.gating]
    arms = {one.arm for one in gating}
    for one in gating:
        words = sentence(one.outcome, name=_name(one)).rstrip(".")
        aside = [] if Reason.NO_BASELINE in one.reasons else [_COMPARED_WITH[_comparison(one)]]
        aside += [one.arm] if len(arms) > 1 else []
        lines.append(f"{words} ({', '.join(aside)})." if aside else f"{words}.")
    left_out = [one for one in gating if one.name in judgment.left_out]
    lines += [f"{_name(one)}: no breach seen, safety not shown; left out." for one in left_out]
    not_claimed = [r.resource for r in evaluation.isolation if r.state == "not_claimed"]
    if not_claimed:
        lines.append(f"Isolation is not claimed for {', '.join(not_claimed)}.")
    lines += [
        f"{finding.detail.rstrip('.')}: {_listed(finding.subjects)}."
        for finding in evaluation.findings
        if finding.effect is Effect.NOTE
    ]
    return lines


def _harmful(judgment: Judgment) -> set[str]:
    folded = judgment.fold
    return {*folded.failing, *folded.excused, *folded.unconfirmed}


def _passing(gating: Sequence[Judged], judgment: Judgment) -> list[str]:
    """Say how many rubrics pass in all that decides about them."""
    counted = [one for one in gating if one.name not in judgment.left_out]
    if not counted:
        return []
    rubrics = {one.rubric for one in counted}
    good = (Verdict.PASS, Verdict.IMPROVEMENT)
    held_back = {
        one.rubric
        for one in counted
        if one.verdict not in good or one.name in judgment.fold.failing
    }
    noun = "rubric" if len(rubrics) == 1 else "rubrics"
    passing = len(rubrics - held_back)
    verb = "passes" if len(rubrics) == 1 else "pass"
    return [f"{passing} of {len(rubrics)} {noun} {verb}"]


def _harm(one: Judged, evaluation: Evaluation, *, confirmed: bool) -> str:
    if isinstance(one.outcome, TailComparison):
        words = _tail_harm(one.outcome, name=_name(one))
    else:
        words = _mean_harm(one.outcome, name=_name(one))
    places = _worse_categories(one, evaluation)
    if places:
        words = f"{words}, mostly in {_listed(places)}"
    return words if confirmed else f"{words}, not confirmed"


def _worse_categories(one: Judged, evaluation: Evaluation) -> list[str]:
    """Return the categories in which an overall regression shows by itself, unless in all of them."""
    slices = [
        draft.judged
        for draft in evaluation.drafts
        if draft.judged.category is not None
        and (draft.judged.rubric, draft.judged.arm) == (one.rubric, one.arm)
        and draft.judged.comparator.comparison is one.comparator.comparison
    ]
    worse = [s.category for s in slices if s.verdict is Verdict.REGRESSION and s.category]
    is_part = one.category is None and one.verdict is Verdict.REGRESSION
    return sorted(worse) if is_part and len(worse) < len(slices) else []


def _mean_harm(outcome: MeanComparison, *, name: str) -> str:
    words = []
    if outcome.verdict is Verdict.REGRESSION and outcome.delta is not None:
        interval = ""
        if outcome.ci95 is not None:
            low, high = sorted((-outcome.ci95.low, -outcome.ci95.high))
            interval = f" ({number(low)} to {number(high)})"
        words.append(f"is worse by {number(-outcome.delta)}{interval} on {_scenarios(outcome)}")
    if outcome.below_floor:
        words.append("is below its absolute limit")
    return f"{name} {' and '.join(words)}"


def _tail_harm(outcome: TailComparison, *, name: str) -> str:
    words = []
    before, after = outcome.quantile_baseline, outcome.quantile_candidate
    if outcome.regression and before is not None and after is not None:
        share = f"p{100 * outcome.rubric.q:g}"
        words.append(f"has a worse tail ({share} {number(before)} before, {number(after)} now)")
    if outcome.breach:
        words.append("is over its ceiling too often")
    return f"{name} {' and '.join(words)}"


def _weak(gating: Sequence[Judged], judgment: Judgment) -> list[str]:
    """Name what is inconclusive for lack of power alone."""
    weak = [one for one in gating if one.name in judgment.fold.inconclusive]
    weak = [one for one in weak if one.name not in judgment.fold.evidence]
    rubrics = sorted({_name(one) for one in weak})
    return [f"too little data to decide {_listed(rubrics)}"] if rubrics else []


def _left_out(gating: Sequence[Judged], judgment: Judgment) -> list[str]:
    names = sorted({_name(one) for one in gating if one.name in judgment.left_out})
    return [f"{_listed(names)}: no breach seen, safety not shown"] if names else []


def _scenarios(outcome: MeanComparison) -> str:
    paired = outcome.decided_by is Design.PAIRED
    n = outcome.n_pairs if paired else min(outcome.n_baseline, outcome.n_candidate)
    return f"{n} scenario" if n == 1 else f"{n} scenarios"


def _comparison(one: Judged) -> Comparison:
    return one.comparator.comparison


def _name(one: Judged) -> str:
    return one.rubric if one.category is None else f"{one.rubric} in {one.category}"


def _counted(finding: Finding) -> str:
    n = len(finding.subjects)
    return _SINGULAR[finding.code] if n == 1 else _FINDING_WORDS[finding.code].format(n=n)


def _listed(subjects: Sequence[str]) -> str:
    shown = ", ".join(subjects[:_SUBJECTS_SHOWN])
    more = len(subjects) - _SUBJECTS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
