"""A nightly that does not come is told of once, counted, and told of no more when one comes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evalhub.protocol.messages import ScheduleRequest
from lanes.plans import queries
from lanes.plans.cron import TimetableError
from lanes.plans.models import ExpectedSchedule, Plan
from lanes.plans.operations import schedules
from lanes.plans.operations.schedules import InvalidScheduleError
from lanes.projects.models import AuditEntry, Notice, NoticeKind, NoticeState, Project
from tests.lanes import factories
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

FRIDAY = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
NIGHT = datetime(2026, 11, 28, 3, 0, tzinfo=UTC)
"""The first due time after FRIDAY; nightlies may come until 05:00."""
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def make_schedule(
    project: Project | None = None,
    *,
    cron: str = "0 3 * * *",
    at: datetime = FRIDAY,
    **fields: Any,
) -> ExpectedSchedule:
    project = project or factories.make_project()
    factories.make_suite(project, at=at)
    wanted = ScheduleRequest(cron=cron, **{"grace_minutes": 120, **fields})
    return schedules.put_schedule(project, "support", wanted, at=at).schedule


def make_nightly(project: Project, at: datetime, *, event: str = "schedule") -> Plan:
    return factories.make_plan(project, at=at, source={"event": event, "pull_request": None})


def sweep(*times: datetime) -> None:
    for at in times:
        schedules.watch_schedules(at=at)


def told(project: Project) -> list[Notice]:
    return list(
        Notice.objects.filter(project=project, kind=NoticeKind.NIGHTLY_ABSENT).order_by("pk")
    )


def test_nightly_that_did_not_come_is_told_of_once_its_grace_is_over() -> None:
    schedule = make_schedule(timezone="Europe/Berlin")
    night = NIGHT - HOUR

    sweep(night, night + 2 * HOUR - timedelta(seconds=1))
    assert told(schedule.project) == []
    sweep(night + 2 * HOUR, night + 2 * HOUR + timedelta(seconds=10), night + 8 * HOUR)

    (notice,) = told(schedule.project)
    assert (notice.state, notice.subject) == (NoticeState.OPEN, "Nightly support did not come")
    assert notice.detail.startswith(
        "Suite support was due at 2026-11-28 02:00 UTC (2026-11-28 03:00 Europe/Berlin), and until"
        " 2026-11-28 04:00 UTC no plan with the event schedule was registered."
        " None was ever registered."
    )
    assert f"evalhub schedule remove support --project {schedule.project.name}" in notice.detail
    assert (
        notice.path == f"/plans/?project={schedule.project.name.replace('/', '%2F')}&suite=support"
    )


def test_nightly_that_comes_in_time_is_not_told_of() -> None:
    schedule = make_schedule()
    # A scheduler whose clock is ahead, one in time, one in the last minute.
    for night, delay in enumerate([timedelta(minutes=-4), HOUR, timedelta(minutes=119)]):
        make_nightly(schedule.project, NIGHT + night * DAY + delay)
        sweep(NIGHT + night * DAY + 3 * HOUR)

    assert told(schedule.project) == []


def test_each_night_that_goes_missing_is_told_of_with_their_number() -> None:
    schedule = make_schedule()
    make_nightly(schedule.project, NIGHT)
    sweep(*(NIGHT + night * DAY + 3 * HOUR for night in range(4)))

    notices = told(schedule.project)

    assert [notice.key for notice in notices] == [
        "support/2026-11-29T03:00Z",
        "support/2026-11-30T03:00Z",
        "support/2026-12-01T03:00Z",
    ]
    assert "due times without one" not in notices[0].detail
    assert "That makes 3 due times without one, from 2026-11-29 03:00 UTC on." in notices[2].detail
    assert "The newest one was registered at 2026-11-28 03:00 UTC." in notices[2].detail


def test_nightly_that_comes_at_last_ends_what_was_told() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR, NIGHT + DAY + 3 * HOUR)
    make_nightly(schedule.project, NIGHT + DAY + 5 * HOUR)

    sweep(NIGHT + DAY + 5 * HOUR)

    assert [notice.state for notice in told(schedule.project)] == [NoticeState.RESOLVED] * 2
    schedule.refresh_from_db()
    assert (schedule.missed_since, schedule.missed_count) == (None, 0)


def test_late_nightly_is_not_taken_for_the_next_one() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR)
    make_nightly(schedule.project, NIGHT + 20 * HOUR)

    sweep(NIGHT + 20 * HOUR, NIGHT + DAY + 3 * HOUR)

    assert [notice.state for notice in told(schedule.project)] == ["RESOLVED", "OPEN"]


def test_nightly_missing_again_is_told_of_again() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR)
    make_nightly(schedule.project, NIGHT + DAY)
    sweep(NIGHT + DAY + 3 * HOUR, NIGHT + 2 * DAY + 3 * HOUR)

    assert [notice.state for notice in told(schedule.project)] == ["RESOLVED", "OPEN"]


@pytest.mark.parametrize("event", ["manual", "push", "pull_request"])
def test_only_a_scheduler_brings_a_nightly(event: str) -> None:
    schedule = make_schedule()
    make_nightly(schedule.project, NIGHT, event=event)
    make_nightly(factories.make_project(), NIGHT)

    sweep(NIGHT + 3 * HOUR)

    assert len(told(schedule.project)) == 1


def test_sweep_that_was_away_for_days_raises_one_notice_that_counts() -> None:
    schedule = make_schedule(cron="0 * * * *", grace_minutes=30)

    sweep(FRIDAY + 3 * DAY)

    (notice,) = told(schedule.project)
    assert "was due at 2026-11-30 11:00 UTC" in notice.detail
    assert "That makes 71 due times without one, from 2026-11-27 13:00 UTC on." in notice.detail


def test_sweep_that_was_away_sees_what_came_meanwhile() -> None:
    schedule = make_schedule()
    for night in range(3):
        make_nightly(schedule.project, NIGHT + night * DAY + HOUR)

    sweep(NIGHT + 2 * DAY + 6 * HOUR)

    assert told(schedule.project) == []


def test_gap_that_ended_while_the_sweep_was_away_is_told_of_as_ended() -> None:
    schedule = make_schedule()
    make_nightly(schedule.project, NIGHT + 2 * DAY)

    sweep(NIGHT + 2 * DAY + 6 * HOUR)

    (notice,) = told(schedule.project)
    assert notice.state == NoticeState.RESOLVED
    assert "was due at 2026-11-29 03:00 UTC" in notice.detail
    assert "2 due times" in notice.detail


def test_hourly_schedule_that_stays_away_is_told_of_once_a_day() -> None:
    schedule = make_schedule(cron="0 * * * *", grace_minutes=10)

    sweep(*(FRIDAY + timedelta(minutes=30) + hour * HOUR for hour in range(72)))

    assert len(told(schedule.project)) == 4


def test_what_was_due_before_a_schedule_was_made_is_not_told_of() -> None:
    schedule = make_schedule(at=NIGHT + timedelta(minutes=1))

    sweep(NIGHT + 3 * HOUR)

    assert told(schedule.project) == []


def test_clock_that_ran_ahead_does_not_blind_the_sweep() -> None:
    schedule = make_schedule()
    ahead = NIGHT + 10 * 366 * DAY
    sweep(ahead)
    (false_alarm,) = told(schedule.project)
    assert "30 due times" in false_alarm.detail

    # The clock is right again: what is due from now on counts.
    make_nightly(schedule.project, NIGHT + HOUR)
    sweep(NIGHT + 3 * HOUR, NIGHT + DAY + 3 * HOUR)

    false_alarm.refresh_from_db()
    assert false_alarm.state == NoticeState.RESOLVED
    assert told(schedule.project)[-1].key == "support/2026-11-29T03:00Z"


@pytest.mark.parametrize(
    "nightlies",
    [("2026-03-29 01:05", "2026-03-30 00:35"), ("2026-10-25 00:35", "2026-10-26 01:35")],
    ids=["spring", "autumn"],
)
def test_nights_of_changed_clocks_are_nights_as_others(nightlies: tuple[str, str]) -> None:
    first, second = (datetime.fromisoformat(at).replace(tzinfo=UTC) for at in nightlies)
    schedule = make_schedule(
        cron="30 2 * * *", timezone="Europe/Berlin", grace_minutes=60, at=first - 12 * HOUR
    )
    make_nightly(schedule.project, first)
    make_nightly(schedule.project, second)

    sweep(*(first + half * HOUR / 2 for half in range(-20, 70)))

    assert told(schedule.project) == []
    sweep(second + 26 * HOUR)
    assert len(told(schedule.project)) == 1


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_raise_one_notice() -> None:
    schedule = make_schedule()

    outcomes = at_once([lambda: sweep(NIGHT + 3 * HOUR)] * 3)

    assert outcomes == [None] * 3
    assert len(told(schedule.project)) == 1
    schedule.refresh_from_db()
    assert schedule.missed_count == 1


def test_paused_schedule_is_not_looked_at_and_waits_from_its_return_on() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR)

    make_schedule(schedule.project, paused=True, at=NIGHT + 4 * HOUR)
    sweep(NIGHT + 2 * DAY)
    make_schedule(schedule.project, at=NIGHT + 2 * DAY + 4 * HOUR)
    sweep(NIGHT + 2 * DAY + 5 * HOUR)

    (notice,) = told(schedule.project)
    assert notice.state == NoticeState.RESOLVED
    sweep(NIGHT + 3 * DAY + 3 * HOUR)
    assert len(told(schedule.project)) == 2


def test_removed_schedule_ends_what_was_told() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR)

    schedules.remove_schedule(schedule, at=NIGHT + 4 * HOUR, actor="user:ada")
    sweep(NIGHT + 2 * DAY)

    (notice,) = told(schedule.project)
    assert notice.state == NoticeState.RESOLVED
    assert list(
        AuditEntry.objects.filter(action__startswith="schedule.").values_list("action", "actor")
    ) == [
        ("schedule.put", "system"),
        ("schedule.remove", "user:ada"),
    ]


def test_same_schedule_put_again_changes_nothing() -> None:
    schedule = make_schedule()
    sweep(NIGHT + 3 * HOUR)

    make_schedule(schedule.project, at=NIGHT + 4 * HOUR)

    (notice,) = told(schedule.project)
    assert notice.state == NoticeState.OPEN
    assert AuditEntry.objects.filter(action="schedule.put").count() == 1


@pytest.mark.parametrize(
    ("cron", "grace_minutes", "said"),
    [
        ("* * * * *", 0, "1 min after"),
        ("*/30 * * * *", 0, "at least 60 minutes"),
        ("0 3,4 * * *", 60, "at most 55"),
        ("0 3 * * *", 1436, "at most 1435"),
        ("0 0 29 2 */7", 0, "within five years"),
        ("0 3 * *", 0, "five fields"),
    ],
)
def test_schedule_that_nobody_can_wait_for_is_refused(
    cron: str, grace_minutes: int, said: str
) -> None:
    with pytest.raises(InvalidScheduleError, match=said):
        make_schedule(cron=cron, grace_minutes=grace_minutes)

    assert ExpectedSchedule.objects.count() == 0


def test_project_waits_for_a_bounded_number_of_nightlies() -> None:
    project = factories.make_project()
    wanted = ScheduleRequest(cron="0 3 * * *")
    names = [f"support-{number}" for number in range(schedules.MOST_SCHEDULES + 1)]
    for name in names:
        factories.make_suite(project, at=FRIDAY, name=name)
    for name in names[:-1]:
        schedules.put_schedule(project, name, wanted, at=FRIDAY)

    with pytest.raises(schedules.TooManySchedulesError, match="has 50 schedules"):
        schedules.put_schedule(project, names[-1], wanted, at=FRIDAY)
    changed = ScheduleRequest(cron="0 4 * * *")
    assert not schedules.put_schedule(project, names[0], changed, at=FRIDAY).created
    assert ExpectedSchedule.objects.filter(project=project).count() == schedules.MOST_SCHEDULES


def test_schedule_of_an_unknown_suite_is_refused() -> None:
    project = factories.make_project()
    wanted = ScheduleRequest(cron="0 3 * * *")

    with pytest.raises(InvalidScheduleError, match="no suite 'suport'"):
        schedules.put_schedule(project, "suport", wanted, at=FRIDAY)

    # A suite may be known by its plans alone.
    make_nightly(project, FRIDAY)
    assert schedules.put_schedule(project, "support", wanted, at=FRIDAY).created


def test_state_of_a_schedule_names_the_times_around_now() -> None:
    schedule = make_schedule()
    nightly = make_nightly(schedule.project, NIGHT + HOUR)
    make_nightly(schedule.project, NIGHT + 2 * HOUR, event="manual")

    other = make_schedule()
    state, unseen = queries.schedule_states([schedule, other], at=NIGHT + 3 * HOUR)

    assert (state.last_due_at, state.next_due_at) == (NIGHT, NIGHT + DAY)
    assert (state.last_seen, unseen.last_seen) == (nightly, None)
    schedule.is_paused = True
    (paused,) = queries.schedule_states([schedule], at=NIGHT + 3 * HOUR)
    assert (paused.last_due_at, paused.next_due_at, paused.last_seen) == (None, None, nightly)


def test_schedule_of_an_unknown_zone_fails_the_sweep_after_the_others() -> None:
    unreadable, schedule = make_schedule(), make_schedule()
    ExpectedSchedule.objects.filter(pk=unreadable.pk).update(timezone="Mars/Olympus")

    with pytest.raises(TimetableError, match="Mars/Olympus"):
        sweep(NIGHT + 3 * HOUR)

    assert len(told(schedule.project)) == 1
    unreadable.refresh_from_db()
    (state,) = queries.schedule_states([unreadable], at=NIGHT)
    assert (state.last_due_at, state.next_due_at, state.word) == (None, None, "unreadable")


def test_word_for_a_schedule_follows_its_night() -> None:
    schedule = make_schedule()

    def word(at: datetime, *, swept: bool = True) -> str:
        if swept:
            sweep(at)
        schedule.refresh_from_db()
        (state,) = queries.schedule_states([schedule], at=at)
        return state.word

    assert word(FRIDAY + HOUR) == "not_due_yet"
    assert word(NIGHT + HOUR) == "awaited"
    assert word(NIGHT + 3 * HOUR, swept=False) == "overdue"
    assert word(NIGHT + 3 * HOUR) == "absent"
    make_nightly(schedule.project, NIGHT + 4 * HOUR)
    assert word(NIGHT + 4 * HOUR) == "in_time"
    assert word(NIGHT + DAY + HOUR) == "awaited"
    make_nightly(schedule.project, NIGHT + DAY - timedelta(minutes=4))
    assert word(NIGHT + DAY + HOUR) == "in_time"
    # Changed after a night that nobody waited for: what was seen before says nothing of it.
    make_schedule(schedule.project, cron="0 4 * * *", at=NIGHT + 3 * DAY + 6 * HOUR)
    assert word(NIGHT + 3 * DAY + 7 * HOUR) == "not_due_yet"
    make_schedule(schedule.project, paused=True, at=NIGHT + 3 * DAY + 6 * HOUR)
    assert word(NIGHT + 3 * DAY + 7 * HOUR) == "paused"
