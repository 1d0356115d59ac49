"""When something is due, also in the nights in which clocks are changed."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from lanes.plans.cron import TimetableError, read_timetable


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due_after(expression: str, zone: str, start: str, *, count: int) -> list[str]:
    times = islice(read_timetable(expression, zone).after(moment(start)), count)
    return [f"{due:%d %H:%M}" for due in times]


def test_timetable_counts_in_its_own_zone() -> None:
    assert due_after("0 3 * * 1-5", "America/New_York", "2026-11-26 12:00", count=3) == [
        "27 08:00",
        "30 08:00",
        "01 08:00",
    ]


def test_timetable_begins_after_the_moment_that_is_given() -> None:
    assert due_after("0 3 * * *", "UTC", "2026-11-26 03:00", count=1) == ["27 03:00"]
    assert due_after("0 3 * * *", "UTC", "2026-11-26 02:59:59", count=1) == ["26 03:00"]


def test_time_that_a_spring_night_leaves_out_is_due_once() -> None:
    # 29 March 2026: 02:00 becomes 03:00 in Berlin, which is 01:00 UTC.
    nights = due_after("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", count=2)

    assert nights == ["29 01:00", "30 00:30"]


def test_time_that_an_autumn_night_has_twice_is_due_once() -> None:
    # 25 October 2026: 03:00 becomes 02:00 in Berlin, which is 01:00 UTC.
    assert due_after("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", count=2) == [
        "25 00:30",
        "26 01:30",
    ]
    # Between the two 02:30 of that night nothing that was due comes again.
    assert due_after("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", count=1) == ["26 01:30"]
    hours = due_after("0 * * * *", "Europe/Berlin", "2026-10-24 23:30", count=3)
    assert hours == ["25 00:00", "25 01:00", "25 02:00"]


@pytest.mark.parametrize(
    ("at", "newest"),
    [
        ("2026-10-25 00:30", "25 00:30"),
        ("2026-10-25 01:10", "25 00:30"),
        ("2026-10-25 00:29", "24 00:30"),
        ("2026-03-29 00:59", "28 01:30"),
        ("2026-03-29 01:00", "29 01:00"),
    ],
)
def test_newest_due_time_is_found_beside_changed_clocks(at: str, newest: str) -> None:
    found = read_timetable("30 2 * * *", "Europe/Berlin").newest_until(moment(at))

    assert found is not None
    assert f"{found:%d %H:%M}" == newest


def test_shortest_gap_is_that_of_the_closest_two() -> None:
    at = moment("2026-03-01 00:00")

    assert read_timetable("0 3 * * *", "UTC").shortest_gap(at) == timedelta(days=1)
    assert read_timetable("0 3,5 * * 1", "UTC").shortest_gap(at) == timedelta(hours=2)
    # Spring takes an hour of a night.
    nightly = read_timetable("0 3 * * *", "Europe/Berlin")
    assert nightly.shortest_gap(at) == timedelta(hours=23)
    assert read_timetable("0 0 29 2 *", "UTC").shortest_gap(at) is None


def test_what_is_due_once_in_decades_has_no_next_time() -> None:
    sundays = read_timetable("59 23 29 2 */7", "UTC")

    assert sundays.next_after(moment("2026-03-01 00:00")) is None


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        ("@daily", "UTC", "five fields"),
        ("0 3 * *", "UTC", "five fields"),
        ("*/5 0 3 * * *", "UTC", "five fields"),
        ("60 3 * * *", "UTC", "at its minute"),
        ("0 0 30 2 *", "UTC", "at its day-of-month"),
        ("9" * 90 + " 0 * * *", "UTC", "at its minute"),
        ("0 3 * * " + "1," * 60, "UTC", "at most 100 characters"),
        ("0 ٣ * * *", "UTC", "at most 100 characters of ASCII"),
        ("0 3 * * *", "Mars/Olympus", "IANA database"),
        ("0 3 * * *", "../../etc/passwd", "IANA database"),
        ("0 3 * * *", "posix", "IANA database"),
        ("0 3 * * *", "right/UTC", "IANA database"),
        ("0 3 * * *", "localtime", "IANA database"),
        ("0 3 * * *", "Factory", "IANA database"),
        ("0 3 * * *", "a\0b", "IANA database"),
        ("0 3 * * *", "x" * 5000, "IANA database"),
        ("0 3 * * *", "", "IANA database"),
    ],
)
def test_text_that_is_no_timetable_is_refused_in_a_sentence(
    expression: str, zone: str, said: str
) -> None:
    with pytest.raises(TimetableError, match=said) as refusal:
        read_timetable(expression, zone)

    assert str(refusal.value).endswith(".")
    assert len(str(refusal.value)) < 300
