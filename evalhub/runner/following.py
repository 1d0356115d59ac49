"""`evalhub push SPOOL --follow`: send a spool while somebody else writes to it.

What may be done depends on what is known of its lane:

    it lives (it holds the spool)     what it has named is sent too, a moment after the lane itself had the
                                      chance; nothing is cut or sealed: that is the lane's own
    it is gone (this very folder was  as `evalhub push SPOOL`: the rest is cut, sent and sealed
    held, and nobody holds it)
    it said that it is over, and all  the same
    its segments have come
    nobody can say (a copy grows, or  what comes is sent, until nothing new came for some time; nothing is
    grew)                             cut or sealed: the lane may live elsewhere, and number its segments
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from evalhub.runner.client import Store
from evalhub.runner.connection import patient
from evalhub.runner.delivery import Delivery, DeliveryReport
from evalhub.runner.errors import Exit, InputError, RunnerError, StoreUnreachableError
from evalhub.runner.holding import is_held, is_original
from evalhub.runner.resume import push_spool
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import Spool
from evalhub.runner.spool_folders import found_spools, spools_in
from evalhub.runner.stopping import Stop

_TICK_SECONDS = 0.5
# The lane itself sends what it cut at once; both at the same time would be sent twice.
_HEAD_START_SECONDS = 2.0

Report = Callable[[str], None]


class StillGrowingError(RunnerError):
    """Nothing new came, but nothing says that the lane is over."""

    exit_code = Exit.GATE_FAILED


@dataclass
class _Followed:
    """A spool that is followed in a thread of its own, and how that ended."""

    folder: Path
    thread: threading.Thread
    reports: list[DeliveryReport] = field(default_factory=list)
    errors: list[RunnerError] = field(default_factory=list)


def follow_spools(
    store: Store, folder: Path, *, quiet_seconds: float, stop: Stop, report: Report
) -> list[DeliveryReport]:
    """Follow every spool in a folder, those too that come later; return how each ended, by folder.

    Raises:
        InputError: if none came.
        RunnerError: the first that ended the following of one.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file, which does not grow; push it without --follow.")
    followed: dict[Path, _Followed] = {}
    until = time.monotonic() + quiet_seconds
    while not stop.is_by_signal():
        for found in set(found_spools(folder)) - set(followed):
            followed[found] = _started(store, found, quiet_seconds, stop, report)
        if followed and not any(one.thread.is_alive() for one in followed.values()):
            break
        if not followed and time.monotonic() > until:
            spools_in(folder, report=report)
            break
        time.sleep(_TICK_SECONDS)
    return _reports(sorted(followed.values(), key=lambda one: one.folder))


def _reports(followed: Sequence[_Followed]) -> list[DeliveryReport]:
    for one in followed:
        one.thread.join()
    for one in followed:
        for error in one.errors:
            raise error
    return [made for one in followed for made in one.reports]


def _started(
    store: Store, folder: Path, quiet_seconds: float, stop: Stop, report: Report
) -> _Followed:
    def follow() -> None:
        try:
            made = follow_spool(
                store, folder, quiet_seconds=quiet_seconds, stop=stop, report=report
            )
        except RunnerError as error:
            one.errors.append(error)
        else:
            one.reports.append(made)

    one = _Followed(folder, threading.Thread(target=follow, name="follow", daemon=True))
    one.thread.start()
    return one


def follow_spool(
    store: Store, folder: Path, *, quiet_seconds: float, stop: Stop, report: Report
) -> DeliveryReport:
    """Send what comes into a spool; once its lane is over, all the rest of it, and seal.

    Raises:
        InputError: if it cannot be read.
        RunnerError: if the store gives no token for the attempt.
    """
    watch = _Watch(folder, quiet_seconds=quiet_seconds, stop=stop)
    spool = watch.opened()
    session = watch.session(store, spool, report)
    delivery = Delivery(spool, session, stop=stop, report=report)
    with closing(delivery):
        life = watch.look(spool)
        while life is _Life.GOES_ON and not stop.is_by_signal():
            age = _HEAD_START_SECONDS if watch.was_held else 0
            if spool.look_again(least_age_seconds=age):
                delivery.wake()
            time.sleep(_TICK_SECONDS)
            life = watch.look(spool)
        if life is not _Life.OVER or stop.is_by_signal():
            unproven = StillGrowingError(
                f"Nothing new came into {folder} for {quiet_seconds:.0f} s, and nothing says that its "
                "lane is over: what came is sent, the rest is not cut and the attempt not sealed. "
                f"Once the lane is over, finish with `evalhub push {folder}`."
            )
            failure = None if stop.is_by_signal() else unproven
            return delivery.finish(seconds=quiet_seconds, on_tick=lambda: None, failure=failure)
    return push_spool(store, folder, seconds=quiet_seconds, stop=stop, report=report)


class _Life(Enum):
    GOES_ON = auto()
    OVER = auto()
    QUIET = auto()


class _Watch:
    """What can be known of the lane of a spool, and since when nothing came."""

    def __init__(self, folder: Path, *, quiet_seconds: float, stop: Stop) -> None:
        self._folder = folder
        self._quiet_seconds = quiet_seconds
        self._stop = stop
        self._seen: object = None
        self._changed_at = time.monotonic()
        self.was_held = False

    def opened(self) -> Spool:
        """Open the spool as soon as it can be read.

        Raises:
            InputError: if it cannot, and does not change any more.
        """
        while True:
            try:
                return Spool.opened_to_follow(self._folder)
            except InputError:
                # Its first files may be on their way.
                if self._is_quiet() or self._stop.is_by_signal():
                    raise
                time.sleep(_TICK_SECONDS)

    def session(self, store: Store, spool: Spool, report: Report) -> AttemptSession:
        """Return a session of the attempt; a store that is away is waited for while there is growth.

        Raises:
            RunnerError: if the store gives no token for it.
        """
        state = spool.state
        while True:
            try:
                return patient(
                    lambda: AttemptSession.resumed(store, state.attempt, opened_at=state.opened_at),
                    seconds=self._quiet_seconds,
                    report=report,
                    is_over=self._stop.is_by_signal,
                )
            except StoreUnreachableError:
                if self._stop.is_by_signal() or self.look(spool) is not _Life.GOES_ON:
                    raise

    def look(self, spool: Spool) -> _Life:
        if is_held(self._folder):
            self.was_held = True
            self._changed_at = time.monotonic()
            return _Life.GOES_ON
        if self.was_held or is_original(self._folder) or spool.is_over():
            return _Life.OVER
        return _Life.QUIET if self._is_quiet() else _Life.GOES_ON

    def _is_quiet(self) -> bool:
        seen = _sizes(self._folder)
        if seen != self._seen:
            self._seen, self._changed_at = seen, time.monotonic()
        return time.monotonic() - self._changed_at > self._quiet_seconds


def _sizes(folder: Path) -> dict[str, int]:
    """Return what grows in a spool, without what is written here: receipts, and the lock."""
    found = {}
    for pattern in ("*.json", "*.ndjson", "segments/*.zip*", "logs/*"):
        for path in folder.glob(pattern):
            try:
                found[str(path)] = path.stat().st_size
            except OSError:
                found[str(path)] = -1
    return found
