"""When the sweeps are due, by a clock that nobody sets.

Celery reckons by the time of day: a clock that is set back by two hours would keep every sweep from
running for two hours. Nor does this beat keep a file, which a full disk or a kill could spoil.
"""

import time
from datetime import datetime, timedelta
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedstate, schedule


class Every(schedule):
    """Every so many seconds, for the first time at once."""

    def __init__(self, seconds: float) -> None:
        super().__init__(run_every=timedelta(seconds=seconds))
        self._seconds = seconds
        self._due_at = time.monotonic()

    def is_due(self, last_run_at: datetime) -> schedstate:
        now = time.monotonic()
        if now < self._due_at:
            return schedstate(is_due=False, next=self._due_at - now)
        self._due_at = now + self._seconds
        return schedstate(is_due=True, next=self._seconds)


class Clockwork(Scheduler):
    """A beat whose order of what comes next follows the same clock. Keeps nothing on disk."""

    def _when(self, entry: ScheduleEntry, next_time_to_run: float, *_: Any) -> float:
        return time.monotonic() + next_time_to_run
