"""Nightlies that projects wait for, and where they stand."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import OuterRef, QuerySet, Subquery

from evalhub.web.errors import NotFoundError
from lanes.plans.cron import TimetableError, read_timetable
from lanes.plans.models import ExpectedSchedule, Plan
from lanes.plans.queries.plans import plans_loaded
from lanes.projects.models import Project

EARLY = timedelta(minutes=5)
"""How long before it is due a nightly may come: a scheduler's clock may be ahead of this server's."""


class ScheduleState(NamedTuple):
    """Where a nightly that is waited for stands; no due times while it is paused or unreadable."""

    schedule: ExpectedSchedule
    last_due_at: datetime | None
    next_due_at: datetime | None
    last_seen: Plan | None
    word: str
    """paused, unreadable, absent, in_time, awaited, overdue (no sweep has looked), not_due_yet."""


def schedules_of(projects: Iterable[Project], *, suite_name: str = "") -> list[ExpectedSchedule]:
    """Return the nightlies that some projects wait for, by project and suite."""
    schedules = ExpectedSchedule.objects.filter(project__in=projects).select_related("project")
    if suite_name:
        schedules = schedules.filter(suite_name=suite_name)
    return list(schedules.order_by("project__name", "suite_name"))


def schedule_of(project: Project, suite_name: str) -> ExpectedSchedule:
    """Return the nightly that a project waits for.

    Raises:
        NotFoundError: if it waits for none of this suite.
    """
    schedule = ExpectedSchedule.objects.filter(project=project, suite_name=suite_name).first()
    if schedule is None:
        raise NotFoundError(f"Project {project.name} has no schedule of a suite {suite_name!r}.")
    return schedule


def watched_schedules() -> list[ExpectedSchedule]:
    """Return every schedule that the sweep looks at."""
    schedules = ExpectedSchedule.objects.filter(is_paused=False).select_related("project")
    return list(schedules.order_by("pk"))


def nightlies(project: Project, suite_name: str) -> QuerySet[Plan]:
    """Return the plans of a suite that a scheduler asked for here, oldest first."""
    plans = plans_loaded().filter(
        project=project, suite_name=suite_name, event="schedule", is_foreign=False
    )
    return plans.order_by("registered_at", "pk")


def schedule_states(schedules: Iterable[ExpectedSchedule], *, at: datetime) -> list[ScheduleState]:
    """Return when nightlies were due, were seen, and are due next, in the order that was given."""
    schedules = list(schedules)
    seen = Plan.objects.filter(
        project=OuterRef("project"),
        suite_name=OuterRef("suite_name"),
        event="schedule",
        is_foreign=False,
    )
    newest = dict(
        ExpectedSchedule.objects.filter(pk__in=[schedule.pk for schedule in schedules])
        .annotate(newest=Subquery(seen.order_by("-registered_at", "-pk").values("pk")[:1]))
        .values_list("pk", "newest")
    )
    plans = plans_loaded().in_bulk([pk for pk in newest.values() if pk is not None])
    return [_schedule_state(s, plans.get(newest.get(s.pk)), at=at) for s in schedules]


def _schedule_state(
    schedule: ExpectedSchedule, seen: Plan | None, *, at: datetime
) -> ScheduleState:
    if schedule.is_paused:
        return ScheduleState(schedule, None, None, seen, "paused")
    try:
        timetable = read_timetable(schedule.cron, schedule.timezone)
    except TimetableError:
        # Its time zone is not known on this machine; the sweep says so.
        return ScheduleState(schedule, None, None, seen, "unreadable")
    due_at = timetable.newest_until(at)
    word = _schedule_word(schedule, seen, due_at, at=at)
    return ScheduleState(schedule, due_at, timetable.next_after(at), seen, word)


def _schedule_word(
    schedule: ExpectedSchedule, seen: Plan | None, due_at: datetime | None, *, at: datetime
) -> str:
    if schedule.missed_count:
        return "absent"
    if due_at is not None and seen is not None and seen.registered_at >= due_at - EARLY:
        return "in_time"
    if due_at is None or due_at <= schedule.judged_until:
        # Nothing was due since somebody began to wait for it.
        return "not_due_yet"
    return "awaited" if at < due_at + timedelta(minutes=schedule.grace_minutes) else "overdue"
