"""The words that a comparison answers with: verdicts, reasons, and what kind of reason each is."""

from enum import StrEnum


class Verdict(StrEnum):
    """What the numbers of one rubric in one slice say."""

    PASS = "PASS"  # noqa: S105 (a verdict, not a password)
    REGRESSION = "REGRESSION"
    IMPROVEMENT = "IMPROVEMENT"
    INCONCLUSIVE = "INCONCLUSIVE"


class Reason(StrEnum):
    """Why a verdict is what it is, or what a reader must know beside it."""

    # The numbers are sound but too few: the only ones that may end in a neutral check.
    UNDERPOWERED = "UNDERPOWERED"
    BORDERLINE = "BORDERLINE"
    # The evidence cannot carry a verdict.
    NO_BASELINE = "NO_BASELINE"
    NOT_JUDGED = "NOT_JUDGED"
    JUDGE_CHANGED = "JUDGE_CHANGED"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    NO_SCALE = "NO_SCALE"
    SUITE_CHANGED = "SUITE_CHANGED"
    SUITE_MISMATCH = "SUITE_MISMATCH"
    MISSING = "MISSING"
    N_LT_2 = "N_LT_2"
    TAIL_N = "TAIL_N"
    NOTHING_BLOCKING = "NOTHING_BLOCKING"
    # An absolute rule is broken, whatever the baseline did.
    BELOW_FLOOR = "BELOW_FLOOR"
    CEILING_BREACH = "CEILING_BREACH"
    # Notes: true beside any verdict, never a cause of one by themselves.
    LOW_N = "LOW_N"
    NO_VARIATION = "NO_VARIATION"
    BASELINE_AT_WORST = "BASELINE_AT_WORST"
    BELOW_FLOOR_EFFECT = "BELOW_FLOOR_EFFECT"
    BATCH_UNKNOWN = "BATCH_UNKNOWN"
    OUT_OF_SCALE = "OUT_OF_SCALE"
    ROBUST = "ROBUST"
    SAFETY_NOT_SHOWN = "SAFETY_NOT_SHOWN"


POWER_REASONS = frozenset({Reason.UNDERPOWERED, Reason.BORDERLINE})

EVIDENCE_REASONS = frozenset(
    {
        Reason.NO_BASELINE,
        Reason.NOT_JUDGED,
        Reason.JUDGE_CHANGED,
        Reason.NOT_COMPARABLE,
        Reason.NO_SCALE,
        Reason.SUITE_CHANGED,
        Reason.SUITE_MISMATCH,
        Reason.MISSING,
        Reason.N_LT_2,
        Reason.TAIL_N,
        Reason.NOTHING_BLOCKING,
    }
)

ABSOLUTE_REASONS = frozenset({Reason.BELOW_FLOOR, Reason.CEILING_BREACH})


def may_be_neutral(reasons: tuple[Reason, ...]) -> bool:
    """Say whether an INCONCLUSIVE verdict with `reasons` may end in a neutral check.

    GitHub lets a merge through on `neutral`, so only numbers that are sound but too few may.

    >>> may_be_neutral((Reason.UNDERPOWERED, Reason.LOW_N))
    True
    >>> may_be_neutral((Reason.UNDERPOWERED, Reason.SUITE_CHANGED))
    False
    >>> may_be_neutral((Reason.NO_VARIATION,))
    False
    """
    return not EVIDENCE_REASONS.intersection(reasons) and bool(POWER_REASONS.intersection(reasons))
