"""Nightlies that a project waits for: which they are, and saying so when one does not come.

A due time owns the plans that are registered from a few minutes before it until shortly before the
next one, so a plan that comes late is never taken for the next night's. Whether one came is read from
the plans themselves: a sweep that was away for days judges as one that was not.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db import transaction
from django.urls import reverse

from evalhub.protocol.messages import ScheduleRequest
from evalhub.web.errors import DomainError
from lanes.plans import queries
from lanes.plans.cron import Timetable, TimetableError, read_timetable
from lanes.plans.models import ExpectedSchedule, Plan
from lanes.projects.models import NoticeKind, Project
from lanes.projects.operations import audit, notices

# What comes more often is no nightly, and one that is absent would be a flood of notices.
_SHORTEST_GAP = timedelta(hours=1)
# While nothing comes, people are told again once a day, however often it is due. Less than a day, as
# a night in spring is shorter.
_TOLD_AGAIN_AFTER = timedelta(hours=20)
# A sweep that was away for longer does not count what was due before.
_FARTHEST_BACK = timedelta(days=31)
# As the wire takes it; what is due once in years has no shorter bound.
_LONGEST_GRACE = timedelta(days=7)


MOST_SCHEDULES = 50
"""Of one project: each is weighed at every sweep and shown on its pages."""


class InvalidScheduleError(DomainError):
    status = 422
    code = "invalid-schedule"


class TooManySchedulesError(DomainError):
    status = 422
    code = "too-many-schedules"
    fix = "Remove a schedule that nobody waits for."


class StoredSchedule(NamedTuple):
    """A schedule, and whether it was not there before."""

    schedule: ExpectedSchedule
    created: bool


@transaction.atomic
def put_schedule(
    project: Project,
    suite_name: str,
    wanted: ScheduleRequest,
    *,
    at: datetime,
    actor: str = audit.SYSTEM,
) -> StoredSchedule:
    """Wait for a nightly from now on, or change how; what was due before `at` is nobody's concern.

    Raises:
        InvalidScheduleError: if nobody can tell when it is due, it is due more often than hourly,
            it may be later than the next one, or the project knows no such suite.
        TooManySchedulesError: if the project waits for enough already.
    """
    _refuse_unfit(project, suite_name, wanted, at=at)
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    columns = {
        "cron": wanted.cron,
        "timezone": wanted.timezone,
        "grace_minutes": wanted.grace_minutes,
        "is_paused": wanted.paused,
    }
    before = ExpectedSchedule.objects.filter(project=project, suite_name=suite_name).first()
    if before is not None and all(getattr(before, name) == new for name, new in columns.items()):
        return StoredSchedule(before, created=False)
    if (
        before is None
        and ExpectedSchedule.objects.filter(project=project).count() >= MOST_SCHEDULES
    ):
        raise TooManySchedulesError(f"The project has {MOST_SCHEDULES} schedules.")
    # What was missed under the old schedule is told of no more.
    columns |= {
        "judged_until": at,
        "missed_since": None,
        "missed_count": 0,
        "noticed_due_at": None,
    }
    schedule, created = ExpectedSchedule.objects.update_or_create(
        project=project,
        suite_name=suite_name,
        defaults=columns,
        create_defaults={**columns, "created_at": at},
    )
    _resolve(schedule, at=at)
    audit.record_audit(
        project,
        actor=actor,
        action="schedule.put",
        subject=suite_name,
        before=_shown(before) if before is not None else None,
        after=_shown(schedule),
        at=at,
    )
    return StoredSchedule(schedule, created)


@transaction.atomic
def remove_schedule(schedule: ExpectedSchedule, *, at: datetime, actor: str = audit.SYSTEM) -> None:
    """Wait for a nightly no more; what was told of it has ended."""
    if not ExpectedSchedule.objects.filter(pk=schedule.pk).delete()[0]:
        return
    _resolve(schedule, at=at)
    audit.record_audit(
        schedule.project,
        actor=actor,
        action="schedule.remove",
        subject=schedule.suite_name,
        before=_shown(schedule),
        at=at,
    )


def watch_schedules(*, at: datetime) -> None:
    """Tell of every nightly that did not come in time, and of its return. Safe to repeat.

    However many due times have passed meanwhile, one look raises one notice for a schedule, which
    counts them; while nothing comes, another follows once a day.

    Raises:
        TimetableError: once the others were looked at, if this machine does not know the time zone
            of one: else it would look as if that nightly came.
    """
    unreadable: list[TimetableError] = []
    for schedule in queries.watched_schedules():
        try:
            look = _look(schedule, at=at)
        except TimetableError as error:
            unreadable.append(error)
            continue
        if look is not None:
            _keep(schedule, look, at=at)
    if unreadable:
        raise unreadable[0]


class _Row(NamedTuple):
    """Due times in a row without a plan: the first of them, and how many there are."""

    since: datetime | None
    length: int


_NO_ROW = _Row(None, 0)


class _Window(NamedTuple):
    """A due time, from when its plan may come, when that is late, and when the next one's begins."""

    due: datetime
    opens: datetime
    late: datetime
    closes: datetime


class _Miss(NamedTuple):
    """The newest due time that passed without a plan, and the row that it ends."""

    window: _Window
    row: _Row


class _Look(NamedTuple):
    """What one look at a schedule found."""

    judged_until: datetime
    miss: _Miss | None
    """None if nothing new is missing."""
    row: _Row
    """What is missing now, after all that came."""
    has_come: bool
    """Whether something came since the last look."""


def _look(schedule: ExpectedSchedule, *, at: datetime) -> _Look | None:
    """Return what is new; None if nothing is."""
    if schedule.judged_until > at:
        # This server's clock ran ahead for a while: what was judged by it never was.
        return _Look(at, None, _NO_ROW, has_come=True)
    start = max(schedule.judged_until, at - _FARTHEST_BACK)
    timetable = read_timetable(schedule.cron, schedule.timezone)
    windows = _windows(timetable, start, grace=timedelta(minutes=schedule.grace_minutes))
    due = list(takewhile(lambda window: window.late <= at, windows))
    row = _Row(schedule.missed_since, schedule.missed_count)
    if not due and not row.length:
        return None
    plans = queries.nightlies(schedule.project, schedule.suite_name)
    arrivals = [
        *plans.filter(registered_at__gte=start - queries.EARLY).values_list(
            "registered_at", flat=True
        )
    ]
    # For what was judged as missing before: it may come until the next one's time begins.
    has_come = bool(row.length) and any(not due or came < due[0].opens for came in arrivals)
    row, miss = _NO_ROW if has_come else row, None
    for window in due:
        if any(window.opens <= came < window.closes for came in arrivals):
            has_come, row = True, _NO_ROW
        else:
            row = _Row(row.since or window.due, row.length + 1)
            miss = _Miss(window, row)
    if not due and not has_come:
        return None
    return _Look(due[-1].due if due else start, miss, row, has_come)


def _windows(timetable: Timetable, start: datetime, *, grace: timedelta) -> Iterator[_Window]:
    for due, following in pairwise(timetable.after(start)):
        closes = following - queries.EARLY
        yield _Window(due, due - queries.EARLY, min(due + grace, closes), closes)


@transaction.atomic
def _keep(schedule: ExpectedSchedule, look: _Look, *, at: datetime) -> None:
    as_it_was = ExpectedSchedule.objects.filter(
        pk=schedule.pk,
        is_paused=False,
        judged_until=schedule.judged_until,
        missed_count=schedule.missed_count,
    )
    row = as_it_was.select_for_update(no_key=True).first()
    if row is None:
        # Another sweep was quicker, or somebody changed the schedule: the next look sees it.
        return
    if look.has_come:
        row.noticed_due_at = None
        _resolve(schedule, at=at)
    if look.miss is not None and _is_to_be_told(row.noticed_due_at, look.miss.window.due):
        row.noticed_due_at = look.miss.window.due
        _raise(schedule, look.miss, at=at)
    if not look.row.length:
        row.noticed_due_at = None
        _resolve(schedule, at=at)
    row.judged_until = look.judged_until
    row.missed_since, row.missed_count = look.row
    row.save(update_fields=["judged_until", "missed_since", "missed_count", "noticed_due_at"])


def _is_to_be_told(noticed_due_at: datetime | None, due: datetime) -> bool:
    return noticed_due_at is None or due - noticed_due_at >= _TOLD_AGAIN_AFTER


def _raise(schedule: ExpectedSchedule, miss: _Miss, *, at: datetime) -> None:
    project, suite_name = schedule.project, schedule.suite_name
    notices.raise_notice(
        project,
        kind=NoticeKind.NIGHTLY_ABSENT,
        key=f"{suite_name}/{miss.window.due:%Y-%m-%dT%H:%M}Z",
        subject=f"Nightly {suite_name} did not come",
        detail=" ".join(_sentences(schedule, miss)),
        path=f"{reverse('plans')}?{urlencode({'project': project.name, 'suite': suite_name})}",
        at=at,
    )


def _resolve(schedule: ExpectedSchedule, *, at: datetime) -> None:
    notices.resolve_notices(
        schedule.project,
        kind=NoticeKind.NIGHTLY_ABSENT,
        key_prefix=f"{schedule.suite_name}/",
        at=at,
    )


def _sentences(schedule: ExpectedSchedule, miss: _Miss) -> Iterator[str]:
    due, late = miss.window.due, miss.window.late
    local = due.astimezone(ZoneInfo(schedule.timezone))
    zone = "" if schedule.timezone == "UTC" else f" ({local:%Y-%m-%d %H:%M} {schedule.timezone})"
    yield (
        f"Suite {schedule.suite_name} was due at {due:%Y-%m-%d %H:%M} UTC{zone}, and until"
        f" {late:%Y-%m-%d %H:%M} UTC no plan with the event schedule was registered."
    )
    if miss.row.since is not None and miss.row.length > 1:
        yield (
            f"That makes {miss.row.length} due times without one, from {miss.row.since:%Y-%m-%d %H:%M}"
            " UTC on."
        )
    newest = queries.nightlies(schedule.project, schedule.suite_name).last()
    if newest is None:
        yield "None was ever registered."
    else:
        yield f"The newest one was registered at {newest.registered_at:%Y-%m-%d %H:%M} UTC."
    yield (
        "See whether its workflow still runs: a scheduler may be late or switched off, and a job"
        " that fails before it registers a plan leaves nothing here. If nobody waits for it any"
        f" more: evalhub schedule remove {schedule.suite_name} --project {schedule.project.name}."
    )


def _refuse_unfit(
    project: Project, suite_name: str, wanted: ScheduleRequest, *, at: datetime
) -> None:
    try:
        timetable = read_timetable(wanted.cron, wanted.timezone)
    except TimetableError as error:
        raise InvalidScheduleError(str(error)) from None
    if timetable.next_after(at) is None:
        raise InvalidScheduleError(
            f"The cron expression was {wanted.cron!r}, which is not due within five years;"
            " expected one that is."
        )
    gap = timetable.shortest_gap(at) or _LONGEST_GRACE + queries.EARLY
    if gap < _SHORTEST_GAP:
        raise InvalidScheduleError(
            f"The cron expression was {wanted.cron!r}, which is due {_minutes(gap)} min after"
            f" it was due; expected at least {_minutes(_SHORTEST_GAP)} minutes between two times."
        )
    if timedelta(minutes=wanted.grace_minutes) > gap - queries.EARLY:
        raise InvalidScheduleError(
            f"The grace was {wanted.grace_minutes} minutes; expected at most"
            f" {_minutes(gap - queries.EARLY)}, so that a late nightly is not taken for the next one."
        )
    if not _knows_suite(project, suite_name):
        raise InvalidScheduleError(
            f"Project {project.name} has no suite {suite_name!r}.",
            fix="Register the suite first, with `evalhub suite put FILE`.",
        )


def _knows_suite(project: Project, name: str) -> bool:
    if queries.current_suite(project, name) is not None:
        return True
    return Plan.objects.filter(project=project, suite_name=name).exists()


def _minutes(duration: timedelta) -> int:
    return duration // timedelta(minutes=1)


def _shown(schedule: ExpectedSchedule) -> dict[str, object]:
    return {
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "grace_minutes": schedule.grace_minutes,
        "paused": schedule.is_paused,
    }
