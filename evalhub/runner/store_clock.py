"""The store's clock, as its answers tell it."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from evalhub.runner import clock


class _Heard(NamedTuple):
    at: datetime
    monotonic: float


class StoreClock:
    """What time it is at the store: what its last answer said, and what has passed since.

    Segments are stamped with it, since the store compares the stamps with its own clock: a machine
    whose clock is wrong, or is set while its lane works, has its evidence taken all the same. Safe
    to use from several threads.
    """

    def __init__(self) -> None:
        self._heard: _Heard | None = None

    def hear(self, date: str | None) -> None:
        """Take over the Date header of an answer; one that is absent or unreadable says nothing."""
        if date is None:
            return
        try:
            at = parsedate_to_datetime(date)
        except ValueError:
            return
        self._heard = _Heard(at.astimezone(UTC), time.monotonic())

    def now(self) -> datetime:
        """Return the store's time; this machine's while the store has said none."""
        heard = self._heard
        if heard is None:
            return clock.now()
        return heard.at + timedelta(seconds=time.monotonic() - heard.monotonic)
