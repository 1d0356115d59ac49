"""Runs the run keys of a lane: one command each, some at once, every end noted before it is evidence."""

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from evalhub.protocol.plan import RunKey
from evalhub.runner import clock
from evalhub.runner.agent_environment import run_variables
from evalhub.runner.console import escaped
from evalhub.runner.errors import RunnerError
from evalhub.runner.fruitless import Fruitless
from evalhub.runner.harvest import Harvest, harvest_or_loss
from evalhub.runner.lane_log import LaneLog
from evalhub.runner.processes import GuardianLostError, RunProcess
from evalhub.runner.room import Room
from evalhub.runner.spool import RunEnded, Spool, SpoolError
from evalhub.runner.streaming import Streams, cut, growths, taken_run

_TICK_SECONDS = 0.1

How = Literal["exited", "setup_error", "timeout", "guardian_lost", "not_started", "budget_exceeded"]


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the runs of a lane have in common. `deadline` is on the monotonic clock."""

    spool: Spool
    log: LaneLog
    command: Sequence[str]
    environment: Mapping[str, str]
    deadline: float
    flush_seconds: float
    """How often what goes on is sent, at most."""
    stamp: Callable[[], datetime]
    """Returns the time with which a segment is stamped."""
    room: Room
    on_cut: Callable[[], None]
    report: Callable[[str], None]


class Execution:
    """The runs of a lane. Start it from the thread that waits for it."""

    def __init__(self, assignment: Assignment, keys: Sequence[RunKey], *, jobs: int) -> None:
        self._assignment = assignment
        self._keys: queue.SimpleQueue[RunKey] = queue.SimpleQueue()
        for key in keys:
            self._keys.put(key)
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._is_broke = False
        self._fruitless = Fruitless()
        self._streams = Streams(
            assignment.spool,
            flush_seconds=assignment.flush_seconds,
            stamp=assignment.stamp,
            tell=self._tell,
        )
        self.total = len(keys)
        self.outcomes: Counter[str] = Counter()
        """How often each outcome occurred; `invalid` where the agent's result is none."""
        self.failure: RunnerError | None = None
        """Why the lane itself could not go on: the spool's disk stayed full, say."""
        self._threads = [
            threading.Thread(target=self._work, name=f"run-{i}", daemon=True)
            for i in range(min(jobs, self.total))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> int:
        with self._guard:
            return self.outcomes.total()

    @property
    def fruitless(self) -> str | None:
        """What to say when every run failed alike and left no result; None if one did otherwise."""
        with self._guard:
            return self._fruitless.sentence()

    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End what runs and start nothing more. What did not end by itself has no result."""
        self._stopped.set()

    def stop_spending(self) -> None:
        """Let what runs come to its end; note the rest as not run for want of money."""
        self._is_broke = True

    def flush(self, *, is_to_end: Callable[[], bool]) -> None:
        """Cut what runs that go on have written since the last time.

        Raises:
            DiskFullError: if there is no room for it now.
        """
        if self._streams.flush(is_to_end=is_to_end):
            self._assignment.on_cut()

    def fail(self, error: RunnerError) -> None:
        """Stop, because the lane itself cannot go on."""
        self.failure = error
        self.stop()

    def join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    key = self._keys.get_nowait()
                except queue.Empty:
                    return
                self._run(key)
        except RunnerError as error:
            self.fail(error)
        except OSError as error:
            self.fail(SpoolError(f"The spool cannot be used: {error}."))

    def _run(self, key: RunKey) -> None:
        self._assignment.room.wait_for_a_run()
        if self._stopped.is_set():
            return
        if self._is_broke:
            self._note(key, _without_run("budget_exceeded"))
        elif time.monotonic() >= self._assignment.deadline:
            self._note(key, _without_run("not_started"))
        else:
            self._begin(key)

    def _begin(self, key: RunKey) -> None:
        folder = self._assignment.spool.run_folder(key).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with self._streams.of(key, folder):
            ended = self._executed(key, folder)
        if ended is None:
            self._keep_unfinished(key)
        else:
            self._note(key, ended)

    def _executed(self, key: RunKey, folder: Path) -> RunEnded | None:
        """Run the command; return how it ended, None if it was stopped."""
        work = self._assignment
        output = work.log.output_of(str(key))
        work.log.note(f"{key} begins")
        started_at, begun = clock.now(), time.monotonic()
        environment = {**work.environment, **run_variables(work.spool.plan, key, folder=folder)}

        def ended(how: How, *, code: int | None = None, error: str | None = None) -> RunEnded:
            return RunEnded(
                how=how,
                exit_code=code,
                error=error,
                started_at=started_at,
                finished_at=clock.now(),
                duration_ms=round((time.monotonic() - begun) * 1000),
                output_tail=output.tail(),
            )

        try:
            process = RunProcess(work.command, environment=environment, on_line=output.line)
        except OSError as error:
            return ended("guardian_lost", error=f"No process could be started: {error.strerror}.")
        try:
            while (end := process.wait(_TICK_SECONDS)) is None:
                if self._stopped.is_set():
                    process.end()
                    return None
                if time.monotonic() >= work.deadline:
                    process.end()
                    return ended("timeout")
        except GuardianLostError as error:
            return ended("guardian_lost", error=str(error))
        if not end.started:
            return ended("setup_error", error=end.error)
        return ended("exited", code=end.exit_code)

    def _note(self, key: RunKey, ended: RunEnded) -> None:
        work = self._assignment
        self._assignment.room.keep(lambda: work.spool.mark_ended(key, ended))
        folder = work.spool.run_folder(key)
        found = self._harvested(key, ended)
        work.log.note(f"{key} ended: {found.outcome or 'invalid result'} ({ended.how})")
        self._cut(found)
        with self._guard:
            self._fruitless.note(ended, wrote_result=os.path.lexists(folder / "result.json"))
            warning = (
                self._fruitless.early_sentence() if self.total > self._fruitless.runs else None
            )
        if warning is not None:
            work.report(warning)
        self._count(found.outcome or "invalid")

    def _keep_unfinished(self, key: RunKey) -> None:
        """Send what a run had written when the lane was stopped: readable, but no result."""
        self._assignment.log.note(f"{key} was stopped with the lane")
        found = self._harvested(key, None)
        self._cut(found)
        if found.outcome is not None:
            self._count(found.outcome)

    def _harvested(self, key: RunKey, ended: RunEnded | None) -> Harvest:
        """Return what is left to be cut of a run that is over."""
        spool = self._assignment.spool
        folder = spool.run_folder(key)
        for found in growths(spool, key, folder, but_the_last=True):
            self._cut(found)
        return harvest_or_loss(folder, key, ended=ended, taken=taken_run(spool, key))

    def _count(self, outcome: str) -> None:
        with self._guard:
            self.outcomes[outcome] += 1

    def _cut(self, found: Harvest) -> None:
        work = self._assignment
        self._tell(found.sentences)
        work.room.keep(lambda: cut(work.spool, found, at=work.stamp()))
        work.on_cut()

    def _tell(self, sentences: Sequence[str]) -> None:
        """Say to whoever watches, and in the evidence, what is wrong with it."""
        work = self._assignment
        for sentence in sentences:
            work.report(sentence)
            work.log.note(escaped(sentence).replace("\n", "\n# "))


def _without_run(how: How) -> RunEnded:
    at = clock.now()
    return RunEnded(how=how, started_at=at, finished_at=at, duration_ms=0)
