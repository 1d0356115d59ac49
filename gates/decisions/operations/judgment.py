"""The rule above the fold: gather findings, reasons of the data and the fold become one word."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalhub.stats.fold import CheckWord, FoldInput, fold, fold_input
from evalhub.stats.fold import Conclusion as Fold
from evalhub.stats.reasons import EVIDENCE_REASONS, Reason, Verdict
from evalhub.stats.rubric import Gate
from gates.verdicts.queries.comparisons import Judged
from gates.verdicts.queries.findings import Effect, Finding

_SEVERITY = (
    CheckWord.SUCCESS,
    CheckWord.NEUTRAL,
    CheckWord.ACTION_REQUIRED,
    CheckWord.FAILURE,
)

_WORD_OF_EFFECT = {
    Effect.FAILURE: CheckWord.FAILURE,
    Effect.ACTION_REQUIRED: CheckWord.ACTION_REQUIRED,
}


@dataclass(frozen=True, kw_only=True)
class Judgment:
    """The word for a plan and what led to it. `fold` names verdicts by `Judged.name`."""

    word: CheckWord
    fold: Fold
    data_reasons: tuple[Reason, ...]
    """Reasons of class evidence among the verdicts that decide, and NOTHING_BLOCKING."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Tail verdicts that show neither harm nor safety: named, and no part of the word."""
        return self.fold.left_out


def judgment(findings: Sequence[Finding], gating: Sequence[Judged], *, protected: bool) -> Judgment:
    """Return the conclusion of a plan.

    `gating` are the verdicts that decide; `protected` is an event whose INCONCLUSIVE blocks. The
    worst of three wins: what gather found, what the data's own reasons allow, what the fold says.
    A reason of class evidence gives at best action_required on every tier; only UNDERPOWERED and
    BORDERLINE may be neutral.
    """
    inputs = [_fold_input(one) for one in gating]
    folded = fold(inputs, protected=protected)
    reasons = _data_reasons(gating, folded)
    words = [_WORD_OF_EFFECT[f.effect] for f in findings if f.effect in _WORD_OF_EFFECT]
    if reasons or _unexplained(inputs, folded):
        words.append(CheckWord.ACTION_REQUIRED)
    word = max([folded.word, *words], key=_SEVERITY.index)
    return Judgment(word=word, fold=folded, data_reasons=reasons)


def _fold_input(one: Judged) -> FoldInput:
    seen = fold_input(one.outcome, name=one.name, confirmation=one.confirmation)
    # A fault comparison blocks by `fault_gate`, whatever the rubric's own gate is; and what the
    # comparator lacked is a reason beside those of the numbers.
    return replace(seen, gate=Gate.BLOCK, reasons=one.reasons)


def _data_reasons(gating: Sequence[Judged], folded: Fold) -> tuple[Reason, ...]:
    found = {
        reason
        for one in gating
        if one.verdict is not Verdict.REGRESSION
        for reason in one.reasons
        if reason in EVIDENCE_REASONS
    }
    if folded.nothing_blocking:
        found.add(Reason.NOTHING_BLOCKING)
    return tuple(sorted(found))


def _unexplained(inputs: Sequence[FoldInput], folded: Fold) -> bool:
    """Say whether a verdict is inconclusive without saying why: nobody may merge on that."""
    return any(
        one.verdict is Verdict.INCONCLUSIVE and not one.reasons and one.name in folded.inconclusive
        for one in inputs
    )
