"""What was removed, how much is stored, and which plans somebody needs."""

from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Count, QuerySet, Sum

from evalhub.protocol.tombstones import Cause, RemovalScope
from evidence.store.models import Pin, PlanStorage, Refusal, Removal, Segment, StoredClass
from lanes.plans.models import Attempt, Plan
from lanes.projects.models import Project


class ClassUse(NamedTuple):
    """How much of one class a project, or a plan, has and had."""

    stored_class: str
    segments: int
    size_bytes: int
    removed_segments: int
    removed_bytes: int


class PlanUse(NamedTuple):
    """How much a plan has."""

    plan: Plan
    segments: int
    size_bytes: int
    holders: list[str]
    """Who needs it."""


class RemovedRecords(NamedTuple):
    """What verdicts of a plan can no longer be recomputed from."""

    records: list[str]
    """Attempts of which records were removed, by whatever cause."""
    purged: list[str]
    """Attempts of which a person had transcripts, logs or files removed."""


def is_purged(plan: Plan) -> bool:
    """Return whether all of a plan was ordered away by a person, so that it takes no evidence."""
    return PURGED_WHOLE in removals_known(plan)


PURGED_WHOLE = (Cause.PURGE.value, RemovalScope.PLAN.value)


def removals_known(plan: Plan) -> set[tuple[str, str]]:
    """Return the causes and scopes of what was removed of a plan; for most plans, nothing."""
    return set(Removal.objects.filter(plan=plan).values_list("cause", "scope"))


def refused_and_removed(attempt: Attempt, object_key: str) -> Removal | None:
    """Return why the bytes of a segment that was refused as a whole are gone; None if they are not."""
    refused = Refusal.objects.filter(
        attempt=attempt, object_key=object_key, path="", removal__isnull=False
    )
    row = refused.select_related("removal").first()
    return None if row is None else row.removal


def removed_records(plan: Plan) -> RemovedRecords:
    """Return what of a plan is gone that its conclusion is to tell of."""
    gone = Segment.objects.filter(attempt__lane__plan=plan, removal__isnull=False)
    by_person = gone.filter(removal__cause=Cause.PURGE).exclude(segment_class="record")
    return RemovedRecords(_attempts(gone.filter(segment_class="record")), _attempts(by_person))


def _attempts(segments: QuerySet[Segment]) -> list[str]:
    found = segments.values_list("attempt__lane__name", "attempt__number").distinct()
    return sorted(f"{lane} #{number}" for lane, number in found)


def storage_of_project(project: Project) -> list[ClassUse]:
    """Return how much a project has of each class: from one row a plan and class."""
    return _by_class(PlanStorage.objects.filter(project=project))


def storage_of_plan(plan: Plan) -> list[ClassUse]:
    """Return how much a plan has of each class."""
    return _by_class(PlanStorage.objects.filter(plan=plan))


def _by_class(rows: QuerySet[PlanStorage]) -> list[ClassUse]:
    names = ("segments", "size_bytes", "removed_segments", "removed_bytes")
    sums = rows.order_by("stored_class").values_list("stored_class")
    found = {
        row[0]: ClassUse(*row) for row in sums.annotate(*(Sum(name, default=0) for name in names))
    }
    return [found.get(name, ClassUse(name, 0, 0, 0, 0)) for name in StoredClass.values]


def largest_plans(project: Project, *, limit: int) -> list[PlanUse]:
    """Return the plans of a project that have most, the largest first."""
    rows = PlanStorage.objects.filter(project=project, segments__gt=0).values("plan")
    sums = rows.annotate(size=Sum("size_bytes"), count=Sum("segments"))
    top = list(sums.order_by("-size", "-plan")[:limit])
    plans = Plan.objects.defer("document").in_bulk([row["plan"] for row in top])
    held = holders_of(plans.values())
    return [
        PlanUse(plans[row["plan"]], row["count"], row["size"], held.get(row["plan"], []))
        for row in top
    ]


def holders_of(plans: Iterable[Plan]) -> dict[int, list[str]]:
    """Return who needs each plan, by its id."""
    held: dict[int, list[str]] = {}
    pins = Pin.objects.filter(plan__in=[plan.pk for plan in plans]).order_by("holder")
    for plan_id, holder in pins.values_list("plan_id", "holder"):
        held.setdefault(plan_id, []).append(holder)
    return held


def pins_of_plan(plan: Plan) -> QuerySet[Pin]:
    """Return who needs a plan, and why."""
    return Pin.objects.filter(plan=plan).order_by("holder")


def pins_of_project(project: Project) -> QuerySet[Pin]:
    """Return who needs which plans of a project, the newest pin first."""
    pins = Pin.objects.filter(plan__project=project).select_related("plan")
    return pins.defer("plan__document").order_by("-pinned_at", "-pk")


def pin_count(project: Project) -> int:
    """Return how many plans of a project somebody needs."""
    found = Pin.objects.filter(plan__project=project).aggregate(count=Count("plan", distinct=True))
    return int(found["count"])


def removals_of_plan(plan: Plan) -> QuerySet[Removal]:
    """Return what was removed of a plan, the newest order first."""
    return Removal.objects.filter(plan=plan).order_by("-pk")


def removals_of_project(project: Project) -> QuerySet[Removal]:
    """Return what was removed of a project, the newest order first."""
    removals = Removal.objects.filter(plan__project=project).select_related("plan")
    return removals.defer("plan__document").order_by("-pk")
