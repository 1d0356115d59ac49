"""Reads: which conclusion governs a plan, and which plans wait for one."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import OuterRef, QuerySet, Subquery

from gates.decisions.models import Conclusion
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan


class Decision(NamedTuple):
    """Where a plan stands. `conclusion` is None while its present inputs are not concluded."""

    state: str
    generation: int
    conclusion: Conclusion | None
    previous: Conclusion | None
    """The newest conclusion, whatever inputs it saw."""
    is_cancelled: bool = False
    """Whether there never will be one."""


def newest_conclusion(plan: Plan) -> Conclusion | None:
    """Return the conclusion that governs a plan; None before the first."""
    return Conclusion.objects.filter(plan=plan).order_by("-inputs_version").first()


def newest_conclusions(plans: Iterable[Plan]) -> dict[int, Conclusion]:
    """Return the governing conclusion of each plan that has one, by plan id, in one query."""
    return {row.plan_id: row for row in _newest_of(plans)}


class Headline(NamedTuple):
    """A conclusion in a line."""

    conclusion: str | None
    title: str


def newest_headlines(plans: Iterable[Plan]) -> dict[int, Headline]:
    """Return what `newest_conclusions` does, without the content of hundreds of verdicts."""
    rows = _newest_of(plans).values_list("plan_id", "conclusion", "title")
    return {plan_id: Headline(conclusion, title) for plan_id, conclusion, title in rows}


def _newest_of(plans: Iterable[Plan]) -> QuerySet[Conclusion]:
    newest = Conclusion.objects.filter(plan=OuterRef("plan")).order_by("-inputs_version")
    return Conclusion.objects.filter(
        plan__in=[plan.pk for plan in plans], pk=Subquery(newest.values("pk")[:1])
    )


def unconcluded_plans(*, at: datetime) -> list[Plan]:
    """Return the plans that are sealed, closed or overdue and whose inputs no conclusion has seen."""
    return [plan for plan in plan_queries.plans_to_conclude(at=at) if plan.kind == "gate"]


def decision_of(plan: Plan) -> Decision:
    """Return where a plan stands now, read anew."""
    state, generation, version, cancelled_at = Plan.objects.values_list(
        "state", "generation", "inputs_version", "cancelled_at"
    ).get(pk=plan.pk)
    newest = newest_conclusion(plan)
    is_current = newest is not None and newest.inputs_version == version
    current = newest if is_current else None
    return Decision(str(state), generation, current, newest, cancelled_at is not None)
