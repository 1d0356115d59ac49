"""Shapes of this room's answers."""

from collections.abc import Iterable

from evalhub.protocol.retention import PurgeRequest
from evalhub.protocol.scalars import rfc3339
from evalhub.web.errors import NotFoundError
from evidence.store import queries
from evidence.store.models import Pin, Removal
from evidence.store.operations import purging
from evidence.store.operations.documents import evidence_count
from evidence.store.operations.importing import Imported
from evidence.store.operations.purging import Preview, Target
from evidence.store.operations.retention import Due
from evidence.store.queries import ClassUse, PlanUse
from lanes.plans import presentation as plans_presentation
from lanes.plans.models import Plan


def imported_row(imported: Imported) -> dict[str, object]:
    """Return a foreign plan that came with an archive, and what there is of it now."""
    plan = imported.plan
    return {
        **plans_presentation.plan_row(plan),
        "new": imported.is_new,
        "segments": evidence_count(plan),
        "runs": queries.runs_of_plan(plan).count(),
    }


def storage_rows(uses: Iterable[ClassUse]) -> list[dict[str, object]]:
    """Return how much there is of each class."""
    return [
        {
            "class": use.stored_class,
            "segments": use.segments,
            "size_bytes": use.size_bytes,
            "removed_segments": use.removed_segments,
            "removed_bytes": use.removed_bytes,
        }
        for use in uses
    ]


def plan_use_row(use: PlanUse) -> dict[str, object]:
    """Return how much a plan has, and who needs it."""
    return {
        "plan": use.plan.digest,
        "suite": use.plan.suite_name,
        "registered_at": rfc3339(use.plan.registered_at),
        "segments": use.segments,
        "size_bytes": use.size_bytes,
        "pinned_for": use.holders,
    }


def due_rows(due: Iterable[Due]) -> list[dict[str, object]]:
    """Return what would go because of its age."""
    return [
        {
            "class": one.stored_class,
            "plans": one.plans,
            "segments": one.segments,
            "size_bytes": one.size_bytes,
        }
        for one in due
    ]


def pin_row(pin: Pin) -> dict[str, object]:
    """Return who needs a plan, and why."""
    return {
        "holder": pin.holder,
        "reason": pin.reason,
        "pinned_by": pin.pinned_by,
        "pinned_at": rfc3339(pin.pinned_at),
    }


def removal_row(removal: Removal) -> dict[str, object]:
    """Return what was ordered away, and whether it is gone."""
    finished_at = removal.finished_at
    return {
        "removal": removal.key,
        "cause": removal.cause.lower(),
        "scope": removal.scope.lower(),
        "subject": removal.subject,
        "by": removal.ordered_by,
        "reason": removal.reason,
        "ordered_at": rfc3339(removal.ordered_at),
        "segments": removal.segments,
        "size_bytes": removal.size_bytes,
        "finished_at": None if finished_at is None else rfc3339(finished_at),
    }


def preview_row(told: Preview) -> dict[str, object]:
    """Return what a purge would remove."""
    return {
        "scope": told.target.scope.lower(),
        "subject": told.target.subject,
        "segments": told.sums.segments,
        "size_bytes": told.sums.size_bytes,
        "runs": told.runs,
        "records": told.records,
        "pins": told.pins,
    }


def target_of(plan: Plan, wanted: PurgeRequest) -> Target:
    """Return what a request wants purged.

    Raises:
        NotFoundError: if the plan has no such attempt, segment or run.
    """
    if wanted.scope == "run":
        run = queries.run_with_id(wanted.run or 0)
        if run.plan_id != plan.pk:
            raise NotFoundError(f"Plan {plan.digest} has no run {run.pk}.")
        return purging.one_run(run)
    if wanted.scope == "segment":
        return purging.one_segment(plan, wanted.attempt or "", wanted.seq or 0)
    if wanted.scope == "attempt":
        return purging.one_attempt(plan, wanted.attempt or "")
    return purging.whole_plan(plan)
