"""The store's clock, as its answers tell it, and the times with which evidence is stamped."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from evalhub.runner import clock


class _Reading(NamedTuple):
    """What a clock said, and when, on the clock that nobody sets."""

    at: datetime
    monotonic: float

    def now(self) -> datetime:
        return self.at + timedelta(seconds=time.monotonic() - self.monotonic)


class StoreClock:
    """What time it is at the store: what its last answer said, and what has passed since.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._own = _Reading(clock.now(), time.monotonic())
        self._heard: _Reading | None = None

    def hear(self, date: str | None) -> None:
        """Take over the Date header of an answer; one that is absent or unreadable says nothing."""
        if date is None:
            return
        try:
            at = parsedate_to_datetime(date)
        except ValueError:
            return
        self._heard = _Reading(at.astimezone(UTC), time.monotonic())

    def now(self) -> datetime:
        """Return the store's time; this machine's while the store has said none."""
        return self._own.now() if self._heard is None else self._heard.now()

    def stamp(self, *, opened_at: datetime) -> datetime:
        """Return the time with which a segment of an attempt is stamped.

        The store refuses what was made before the attempt or in the future, by its own clock. So the
        stamp is the earlier of both clocks, and never before the opening: whichever of the two is
        wrong, or is set meanwhile, good evidence is taken.
        """
        return max(opened_at, min(self._own.now(), self.now()))
