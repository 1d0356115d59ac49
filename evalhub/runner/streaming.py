"""Evidence of runs that still go on: what they have written so far is cut before their machine may die.

A run's next part is due a flush interval after the last one, then ever later: at most a twentieth of the
run's age is at stake, and never more than a minute, so a run of one hour has about a hundred parts.
"""

import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.plan import RunKey
from evalhub.runner.growing import LIVE, PART_BYTES, WHOLE, Bounds, taken_of
from evalhub.runner.harvest import Harvest, TakenRun, growth
from evalhub.runner.spool import Spool

_SHARE_OF_AGE = 1 / 20
_LONGEST_SECONDS = 60.0
# What is held in memory at once of one run.
_MOST_BYTES = 8 * PART_BYTES
_NAMES = ("transcript.ndjson", "judge.ndjson")

Told = Callable[[list[str]], None]


class _Look(NamedTuple):
    """What a file looked like from outside."""

    size_bytes: int
    inode: int
    changed_at_ns: int


_NO_FILE = _Look(0, 0, 0)


@dataclass
class _Running:
    """A run that goes on."""

    key: RunKey
    folder: Path
    began: float
    cut: float
    seen: list[_Look] = field(default_factory=lambda: [_NO_FILE] * len(_NAMES))
    guard: threading.Lock = field(default_factory=threading.Lock)
    is_over: bool = False


class Streams:
    """The runs of a lane that go on. Safe to use from several threads.

    `tell` gets the sentences about what is wrong in what was cut.
    """

    def __init__(
        self, spool: Spool, *, flush_seconds: float, stamp: Callable[[], datetime], tell: Told
    ) -> None:
        self._spool = spool
        self._flush_seconds = flush_seconds
        self._stamp = stamp
        self._tell = tell
        self._guard = threading.Lock()
        self._running: list[_Running] = []

    @contextmanager
    def of(self, key: RunKey, folder: Path) -> Iterator[None]:
        """Let a run's files be looked at for the block, and not after it."""
        now = time.monotonic()
        run = _Running(key, folder, began=now, cut=now)
        with self._guard:
            self._running.append(run)
        try:
            yield
        finally:
            with self._guard:
                self._running.remove(run)
            # Waits for a cut that is under way: two must not continue from one place.
            with run.guard:
                run.is_over = True

    def flush(self, *, is_to_end: Callable[[], bool]) -> bool:
        """Cut what is due of each run; return whether anything was.

        Raises:
            DiskFullError: if there is no room for it now.
            RunnerError: if the spool cannot take it for another reason.
        """
        with self._guard:
            running = list(self._running)
        any_cut = False
        for run in running:
            with run.guard:
                if not run.is_over and not is_to_end() and self._is_due(run):
                    any_cut |= self._cut(run, is_to_end)
        return any_cut

    def _is_due(self, run: _Running) -> bool:
        seen = [_look(run.folder / name) for name in _NAMES]
        if seen == run.seen:
            return False
        grown = sum(
            now.size_bytes - before.size_bytes for now, before in zip(seen, run.seen, strict=True)
        )
        now = time.monotonic()
        is_old = now - run.cut >= pause_seconds(now - run.began, flush_seconds=self._flush_seconds)
        if not is_old and grown < PART_BYTES:
            return False
        run.seen, run.cut = seen, now
        return True

    def _cut(self, run: _Running, is_to_end: Callable[[], bool]) -> bool:
        any_cut = False
        # Before anything is read: what is older than a segment's stamp is in it or in one before.
        at = self._stamp()
        for found in growths(self._spool, run.key, run.folder, bounds=LIVE):
            self._tell(found.sentences)
            any_cut |= cut(self._spool, found, at=at)
            if is_to_end():
                break
        return any_cut


def pause_seconds(age_seconds: float, *, flush_seconds: float) -> float:
    """Return how long a run of an age is left alone between two parts.

    >>> [pause_seconds(age, flush_seconds=5) for age in (10, 600, 36_000)]
    [5, 30.0, 60.0]
    """
    return max(flush_seconds, min(age_seconds * _SHARE_OF_AGE, _LONGEST_SECONDS))


def taken_run(spool: Spool, key: RunKey) -> TakenRun:
    """Return how far a run's files lie in a spool's segments."""
    return TakenRun(taken_of(spool, key, ItemKind.TRANSCRIPT), taken_of(spool, key, ItemKind.JUDGE))


def growths(
    spool: Spool,
    key: RunKey,
    folder: Path,
    *,
    bounds: Bounds = WHOLE,
    but_the_last: bool = False,
) -> Iterator[Harvest]:
    """Yield what is new in a run's files, in pieces that memory holds; each is to be cut at once.

    With `but_the_last` the last piece is left to whoever harvests the ended run.
    """
    bounds = bounds._replace(at_once_bytes=_MOST_BYTES)
    is_more = True
    while is_more:
        taken = taken_run(spool, key)
        try:
            found = growth(folder, key, taken=taken, bounds=bounds)
        except (OSError, ValueError, RecursionError):
            # What nobody foresaw in the agent's folder: the end of the run tells what it was.
            return
        if not (found.record or found.bulk) or (but_the_last and not found.is_more):
            return
        yield found
        # A part that no segment can hold would be tried for ever.
        is_more = found.is_more and taken_run(spool, key) != taken


def cut(spool: Spool, found: Harvest, *, at: datetime) -> bool:
    """Put what was found of a run into segments; return whether there was anything new."""
    record = spool.cut("record", found.record, at=at)
    return bool(spool.cut("bulk", found.bulk, at=at)) or bool(record)


def _look(path: Path) -> _Look:
    try:
        found = path.lstat()
    except OSError:
        return _NO_FILE
    if not stat.S_ISREG(found.st_mode):
        return _NO_FILE
    return _Look(found.st_size, found.st_ino, found.st_mtime_ns)
