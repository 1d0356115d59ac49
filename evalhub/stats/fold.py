"""Many verdicts, one word for the check."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from evalhub.stats.multiplicity import holm
from evalhub.stats.outcomes import Confirmation, MeanComparison, TailComparison
from evalhub.stats.reasons import Reason, Verdict, may_be_neutral
from evalhub.stats.rubric import Gate


class Multiplicity(StrEnum):
    """How a REGRESSION is confirmed among many blocking rubrics."""

    HOLM = "holm"
    NONE = "none"


class Triage(StrEnum):
    """What a person or a re-judging found behind a failed rubric."""

    REAL_REGRESSION = "REAL_REGRESSION"
    RUN_NOISE = "RUN_NOISE"
    JUDGE_NOISE = "JUDGE_NOISE"
    JUDGE_DRIFT = "JUDGE_DRIFT"
    JUDGE_CHANGED = "JUDGE_CHANGED"
    ENVIRONMENT_FAULT = "ENVIRONMENT_FAULT"
    UNRESOLVED = "UNRESOLVED"


# These take a failure back to a person's desk, never further.
EXCUSING = frozenset(
    {
        Triage.JUDGE_NOISE,
        Triage.JUDGE_DRIFT,
        Triage.JUDGE_CHANGED,
        Triage.ENVIRONMENT_FAULT,
        Triage.UNRESOLVED,
    }
)


class CheckWord(StrEnum):
    """GitHub's own words for a completed check, as far as the statistics may choose one."""

    FAILURE = "failure"
    ACTION_REQUIRED = "action_required"
    NEUTRAL = "neutral"
    SUCCESS = "success"


@dataclass(frozen=True, kw_only=True)
class FoldInput:
    """One rubric of one arm as the fold sees it.

    `confirmed` is None unless the verdict is REGRESSION; `left_out` marks a tail rubric that shows
    neither harm nor safety.
    """

    verdict: Verdict
    name: str = ""
    gate: Gate = Gate.BLOCK
    confirmed: bool | None = None
    triage: Triage | None = None
    reasons: tuple[Reason, ...] = ()
    below_floor: bool = False
    breach: bool = False
    left_out: bool = False

    @property
    def fails(self) -> bool:
        """True for a confirmed regression, or an absolute limit that is broken."""
        confirmed = self.verdict is Verdict.REGRESSION and self.confirmed is True
        return confirmed or self.below_floor or self.breach


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The word for the check and the names of the blocking rubrics behind it.

    `evidence` names INCONCLUSIVE rubrics whose reason is not a lack of power. With
    `nothing_blocking` the word is neutral here; who concludes must not let it through.
    """

    word: CheckWord
    failing: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    nothing_blocking: bool = False


def confirm(
    comparisons: Sequence[MeanComparison | TailComparison],
    *,
    method: Multiplicity | str = Multiplicity.HOLM,
    alpha: float = 0.05,
) -> tuple[Confirmation, ...]:
    """Confirm the regressions of one family: all blocking rubrics of one comparison, in order.

    A REGRESSION stands if its Holm-adjusted p is below `alpha`; with method `none` every one does.
    A rubric without a p still counts in the family, so that lost evidence cannot ease the others.

    Raises:
        ValueError: for another method.
    """
    chosen = Multiplicity(method)
    regressed = [comparison.verdict is Verdict.REGRESSION for comparison in comparisons]
    if chosen is Multiplicity.NONE:
        return tuple(Confirmation(None, True if is_one else None) for is_one in regressed)
    raw = [1.0 if comparison.p is None else comparison.p for comparison in comparisons]
    return tuple(
        Confirmation(
            p_holm=None if comparison.p is None else adjusted,
            confirmed=adjusted < alpha if is_one else None,
        )
        for comparison, adjusted, is_one in zip(comparisons, holm(raw), regressed, strict=True)
    )


def fold_input(
    comparison: MeanComparison | TailComparison,
    *,
    name: str,
    confirmation: Confirmation | None = None,
    triage: Triage | None = None,
) -> FoldInput:
    """Return what the fold needs of a comparison."""
    seen = FoldInput(
        verdict=comparison.verdict,
        name=name,
        gate=comparison.rubric.gate,
        confirmed=None if confirmation is None else confirmation.confirmed,
        triage=triage,
        reasons=comparison.reasons,
    )
    if isinstance(comparison, TailComparison):
        return replace(seen, breach=comparison.breach, left_out=comparison.left_out)
    return replace(seen, below_floor=comparison.below_floor)


def fold(rubrics: Sequence[FoldInput], *, protected: bool) -> Conclusion:
    """Fold the blocking rubrics into one word; `protected` is a tier where INCONCLUSIVE blocks.

    failure: a confirmed regression or a broken absolute limit that triage does not excuse.
    action_required: an unconfirmed or excused one, evidence that cannot carry a verdict, or any
    INCONCLUSIVE on a protected tier. neutral: other INCONCLUSIVE, or nothing that blocks.
    success: every blocking rubric passed. Rubrics that only warn or inform change nothing.
    """
    blocking = [rubric for rubric in rubrics if rubric.gate is Gate.BLOCK]
    left_out = [rubric for rubric in blocking if rubric.left_out and not rubric.fails]
    counted = [rubric for rubric in blocking if rubric not in left_out]
    excused = [rubric for rubric in counted if rubric.fails and rubric.triage in EXCUSING]
    failing = [rubric for rubric in counted if rubric.fails and rubric.triage not in EXCUSING]
    standing = [rubric for rubric in counted if not rubric.fails]
    unconfirmed = [rubric for rubric in standing if rubric.verdict is Verdict.REGRESSION]
    inconclusive = [rubric for rubric in standing if rubric.verdict is Verdict.INCONCLUSIVE]
    evidence = [
        rubric for rubric in inconclusive if rubric.reasons and not may_be_neutral(rubric.reasons)
    ]
    word = CheckWord.SUCCESS
    if failing:
        word = CheckWord.FAILURE
    elif excused or unconfirmed or evidence or (inconclusive and protected):
        word = CheckWord.ACTION_REQUIRED
    elif inconclusive or not counted:
        word = CheckWord.NEUTRAL
    return Conclusion(
        word=word,
        failing=_names(failing),
        excused=_names(excused),
        unconfirmed=_names(unconfirmed),
        evidence=_names(evidence),
        inconclusive=_names(inconclusive),
        left_out=_names(left_out),
        nothing_blocking=not counted,
    )


def _names(rubrics: Sequence[FoldInput]) -> tuple[str, ...]:
    return tuple(rubric.name for rubric in rubrics)
