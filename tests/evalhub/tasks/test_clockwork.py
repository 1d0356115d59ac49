"""Sweeps are due by a clock that nobody sets, whatever the time of day says."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry

from evalhub.tasks.clockwork import Clockwork, Every

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def test_sweep_is_due_at_once_and_then_after_its_time_whatever_the_day_says() -> None:
    every = Every(3600)

    first = every.is_due(NOON)
    next_ones = [every.is_due(NOON + timedelta(hours=hours)) for hours in (-2, 0, 2)]

    assert (first.is_due, first.next) == (True, 3600)
    assert [due.is_due for due in next_ones] == [False] * 3
    assert all(3590 < due.next <= 3600 for due in next_ones)


class Listening(Clockwork):
    """A beat that notes what it would send."""

    sent: list[str]

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        self.sent.append(str(entry.name))


def test_beat_sends_every_sweep_in_turn() -> None:
    app = Celery("test", set_as_current=False, broker="memory://")
    app.conf.beat_schedule = {
        name: {"task": name, "schedule": Every(0.05), "options": {}} for name in "ab"
    }
    beat = Listening(app)
    beat.sent = []

    until = time.monotonic() + 20
    while len(beat.sent) < 6 and time.monotonic() < until:
        time.sleep(min(beat.tick(), 0.05))

    assert set(beat.sent[:2]) == set(beat.sent[2:4]) == set(beat.sent[4:6]) == {"a", "b"}
