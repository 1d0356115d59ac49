"""Retention: for how long a project keeps its evidence, and what is removed because of its age.

The age of a plan's records, or of its transcripts, logs and files, counts from the last one that came.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum

from evalhub.protocol.retention import MOST_DAYS
from evalhub.protocol.tombstones import Cause, RemovalScope
from evalhub.tasks.names import TaskName
from evalhub.tasks.queries import sweep_runs
from evalhub.web.errors import DomainError
from evidence.store.models import (
    Pin,
    PlanStorage,
    Removal,
    Retention,
    Segment,
    StoredClass,
)
from evidence.store.operations import counting, pins, removals
from evidence.store.operations.removals import Stock, Why
from lanes.plans.models import Plan, PlanState
from lanes.projects.models import Project
from lanes.projects.operations import audit

ORDERED_BY = "retention"
_PLANS_AT_ONCE = 20
# Those who need plans pin them within a sweep; a server that was away must first hear of all of them.
_PINS_SEEN_WITHIN = timedelta(hours=1)
_WORDS = {
    StoredClass.RECORD: "results, judge calls and lane records",
    StoredClass.BULK: "transcripts, logs and files",
    StoredClass.REFUSED: "segments that were refused as a whole",
}


class RetentionInvalidError(DomainError):
    status = 422
    code = "retention-invalid"


class Days(NamedTuple):
    """For how many days each class is kept; None keeps it for good."""

    record: int | None
    bulk: int | None

    def of(self, stored_class: str) -> int | None:
        """Return the days of a class; what was refused may hold records, so it is kept like those."""
        return self.bulk if stored_class == StoredClass.BULK else self.record

    def as_json(self) -> dict[str, int | None]:
        return {"record_days": self.record, "bulk_days": self.bulk}


class Due(NamedTuple):
    """What would go because of its age."""

    stored_class: str
    plans: int
    segments: int
    size_bytes: int


def days_of(project: Project) -> Days:
    """Return for how long a project keeps its evidence; the installation's word where it has none."""
    row = Retention.objects.filter(project=project).first()
    if row is None:
        return Days(None, settings.BULK_DAYS or None)
    return Days(row.record_days, row.bulk_days)


@transaction.atomic
def set_retention(project: Project, days: Days, *, actor: str, at: datetime) -> Days:
    """Change for how long a project keeps its evidence; return what held before. In the audit.

    Raises:
        RetentionInvalidError: if a number of days is none, or records would go before the rest.
    """
    _expect_sound(days)
    before = days_of(project)
    Retention.objects.update_or_create(
        project=project,
        defaults={**days.as_json(), "changed_by": actor[:200], "changed_at": at},
    )
    audit.record_audit(
        project,
        actor=actor,
        action="retention.set",
        subject=project.name,
        before=before.as_json(),
        after=days.as_json(),
        at=at,
    )
    return before


def due_with(project: Project, days: Days, *, at: datetime) -> list[Due]:
    """Return what would go at once if a project kept its evidence for so long.

    Raises:
        RetentionInvalidError: as `set_retention`.
    """
    _expect_sound(days)
    found = []
    for stored_class in StoredClass.values:
        kept_for = days.of(stored_class)
        if kept_for is None:
            continue
        rows = _due(project, stored_class, kept_for, at=at)
        sums = rows.aggregate(segments=Sum("segments"), size=Sum("size_bytes"))
        if sums["segments"]:
            found.append(Due(stored_class, rows.count(), sums["segments"], sums["size"]))
    return found


def sweep_retention(*, at: datetime) -> int:
    """Order away what is older than its project keeps, some plans at a time; return how many orders.

    Waits until those who need plans have pinned them, and leaves a plan until its segments are counted.
    """
    if not _pins_are_known(at=at):
        return 0
    ordered = 0
    for project in Project.objects.order_by("pk").iterator():
        days = days_of(project)
        for storage, kept_for in _old(project, days, at=at):
            ordered += _order(storage, kept_for, at=at)
            if ordered >= _PLANS_AT_ONCE:
                return ordered
    return ordered


def _old(project: Project, days: Days, *, at: datetime) -> Iterator[tuple[PlanStorage, int]]:
    for stored_class in StoredClass.values:
        kept_for = days.of(stored_class)
        if kept_for is None:
            continue
        rows = _due(project, stored_class, kept_for, at=at).order_by("last_received_at", "pk")
        for storage in rows[:_PLANS_AT_ONCE]:
            yield storage, kept_for


def _due(
    project: Project, stored_class: str, kept_for: int, *, at: datetime
) -> QuerySet[PlanStorage]:
    """Return what is old enough, of plans that are decided, that nobody needs, and that is not going yet."""
    old = PlanStorage.objects.filter(
        project=project,
        stored_class=stored_class,
        segments__gt=0,
        last_received_at__lt=at - timedelta(days=kept_for),
    )
    going = Removal.objects.filter(
        plan=OuterRef("plan"),
        finished_at__isnull=True,
        scope=RemovalScope.CLASS,
        subject=stored_class,
    )
    needed = Pin.objects.filter(plan=OuterRef("plan"))
    return old.filter(_DECIDED).exclude(Exists(going)).exclude(Exists(needed))


_DECIDED = Q(plan__cancelled_at__isnull=False) | Q(
    plan__state=PlanState.CONCLUDED, plan__concluded_version__gte=F("plan__inputs_version")
)


@transaction.atomic
def _order(storage: PlanStorage, kept_for: int, *, at: datetime) -> bool:
    plan = Plan.objects.select_related("project").defer("document").get(pk=storage.plan_id)
    pins.lock(plan)
    # A pin may have been set since, or evidence may have come: its age is known once it is counted.
    due = _due(plan.project, storage.stored_class, kept_for, at=at)
    if counting.has_uncounted(plan) or not due.filter(pk=storage.pk).exists():
        return False
    stored_class = StoredClass(storage.stored_class)
    days = f"{kept_for} day{'' if kept_for == 1 else 's'}"
    why = Why(
        Cause.RETENTION,
        RemovalScope.CLASS,
        stored_class.value,
        ORDERED_BY,
        f"{_WORDS[stored_class]} are kept for {days} here.",
    )
    return removals.order_removal(plan, _stock(plan, stored_class), why, at=at) is not None


def _stock(plan: Plan, stored_class: StoredClass) -> Stock:
    segments = Segment.objects.filter(attempt__lane__plan=plan, segment_class=stored_class)
    refusals = removals.whole_segments_refused(plan)
    return Stock(segments, refusals if stored_class is StoredClass.REFUSED else refusals.none())


def _pins_are_known(*, at: datetime) -> bool:
    """Return whether those who need plans have said so lately; they are above this room, hence by name."""
    seen = {run.name: run.finished_at for run in sweep_runs()}
    finished_at = seen.get(TaskName.SWEEP_PINS.value)
    return finished_at is not None and finished_at > at - _PINS_SEEN_WITHIN


def _expect_sound(days: Days) -> None:
    for name, value in days.as_json().items():
        if value is not None and not 1 <= value <= MOST_DAYS:
            raise RetentionInvalidError(
                f"{name} was {value}; expected 1 to {MOST_DAYS}, or null to keep it for good."
            )
    if days.record is not None and (days.bulk is None or days.bulk > days.record):
        raise RetentionInvalidError(
            f"Records would go after {days.record} days, and what they tell of would stay:"
            " keep records at least as long as transcripts, logs and files."
        )
