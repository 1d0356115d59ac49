"""What gather can find: a code, what it concerns, and how far it lets a conclusion get."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Effect(StrEnum):
    """The best conclusion that a finding leaves possible."""

    FAILURE = "failure"
    ACTION_REQUIRED = "action_required"
    NOTE = "note"
    """Shown, without an effect."""


class FindingClass(StrEnum):
    """What a finding is about."""

    EVIDENCE = "evidence"
    ISOLATION = "isolation"
    SPEND = "spend"


class Code(StrEnum):
    """Every finding by name."""

    MISSING = "missing"
    UNMEASURED_LANE = "unmeasured_lane"
    UNSEALED_LANE = "unsealed_lane"
    DUPLICATE = "duplicate"
    UNEXPECTED = "unexpected"
    STALE = "stale"
    MALFORMED = "malformed"
    INCOMPATIBLE = "incompatible"
    UNREADABLE_SEGMENT = "unreadable_segment"
    PURGED = "purged"
    JUDGE_CHANGED = "judge_changed"
    ENVIRONMENT_DIFFERS = "environment_differs"
    OUT_OF_SCALE = "out_of_scale"
    UNMEASURED = "unmeasured"
    REPLACED = "replaced"
    REMEASURED = "remeasured"
    UNSCORED = "unscored"
    SUITE_CHANGED = "suite_changed"
    SUITE_GREW = "suite_grew"
    ARMS_CHANGED = "arms_changed"
    JUDGE_REPLACED = "judge_replaced"
    ISOLATION_VIOLATED = "isolation_violated"
    ISOLATION_UNPROVEN = "isolation_unproven"
    SPEND_CONFLICT = "spend_conflict"
    UNKNOWN_COST = "unknown_cost"


class Finding(NamedTuple):
    """One thing that gather noticed. `subjects` are sorted; `detail` is one plain sentence."""

    code: Code
    effect: Effect
    subjects: tuple[str, ...]
    detail: str
    class_: FindingClass = FindingClass.EVIDENCE

    def as_json(self) -> dict[str, object]:
        """Return the finding as WIRE section 4 gives it, with its effect and sentence."""
        return {
            "class": self.class_.value,
            "code": self.code.value,
            "effect": self.effect.value,
            "subjects": list(self.subjects),
            "detail": self.detail,
        }


def finding(
    code: Code,
    effect: Effect,
    subjects: Iterable[str],
    detail: str,
    *,
    class_: FindingClass = FindingClass.EVIDENCE,
) -> list[Finding]:
    """Return one finding about `subjects`; none when there are none."""
    named = tuple(sorted(set(subjects)))
    return [Finding(code, effect, named, detail, class_)] if named else []
