"""Keep programs running: wait for signals, restart with back-off, give up with the reason, stop."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from evalhub.supervisor.children import kill_group, start_child
from evalhub.supervisor.errors import StoppedError, UpError
from evalhub.supervisor.programs import WEB_GRACE_SECONDS, Program

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
CRASHES_ALLOWED = 5
CRASH_WINDOW_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 8.0
_LONGEST_LOG_BYTES = 20_000_000
# The web server's own grace and a little more, so that it can end its requests.
_GRACE_SECONDS = WEB_GRACE_SECONDS + 5.0


def restart_pause(crashes: Sequence[float], *, at: float, first: float = 0.5) -> float | None:
    """Return how long to wait before the next start, or None to give up.

    `crashes` are the times of all crashes so far, the newest included; `first` is the pause after
    the first one.

    >>> restart_pause([100.0], at=100.0), restart_pause([90.0, 95.0, 100.0], at=100.0)
    (0.5, 2.0)
    >>> restart_pause([60.0, 70.0, 80.0, 90.0, 100.0], at=100.0) is None
    True
    """
    recent = sum(1 for crash in crashes if at - crash < CRASH_WINDOW_SECONDS)
    if recent >= CRASHES_ALLOWED:
        return None
    return min(first * 2.0 ** (recent - 1), _LONGEST_PAUSE_SECONDS)


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Hold back the signals that `next_signal` waits for, so that none is lost between two waits."""
    waited_for = STOP_SIGNALS | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def next_signal(seconds: float) -> int | None:
    """Return the next stop signal or SIGCHLD, or None when none came within `seconds`."""
    info = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, max(seconds, 0.0))
    return None if info is None else info.si_signo


@dataclass
class _Child:
    """A program that is kept running; `process` is None while it waits for its next start."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    starts_at: float = 0.0
    crashes: list[float] = field(default_factory=list)


@dataclass
class Supervisor:
    """Runs programs with one environment, their output in one folder of logs."""

    environment: Mapping[str, str]
    logs: Path
    folder: Path
    lock: int
    say: Callable[[str], None]
    first_pause_seconds: float = 0.5
    children: list[_Child] = field(default_factory=list)

    def run(self, program: Program) -> str:
        """Run a program to its end and return what it printed.

        Raises:
            UpError: if it ends with another code than 0, with the last line of its log.
            StoppedError: if a stop signal comes first.
        """
        # Not in the logs: what a command prints may be a secret.
        with self._open_log(program) as log, tempfile.TemporaryFile() as output:
            process = start_child(
                program,
                environment=self.environment,
                shared=(self.lock,),
                log=log,
                output=output,
                folder=self.folder,
            )
            try:
                while process.poll() is None:
                    if next_signal(1.0) in STOP_SIGNALS:
                        raise StoppedError
            finally:
                kill_group(process)
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if process.returncode != 0:
            raise UpError(f"`{program.name}` failed: {self.last_line(program.name)}")
        return printed

    def keep(self, program: Program) -> None:
        """Start a program and keep it running from now on."""
        child = _Child(program)
        self.children.append(child)
        self._start(child)

    def watch(self, seconds: float) -> None:
        """Look after the programs for about `seconds`.

        Raises:
            StoppedError: when a stop signal comes.
            UpError: when a program has crashed too often.
        """
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for child in self.children:
                self._look_after(child, at=now)
            wakings = [c.starts_at for c in self.children if c.process is None]
            if next_signal(min([until, *wakings]) - now) in STOP_SIGNALS:
                raise StoppedError
            if time.monotonic() >= until:
                return

    def stop(self) -> None:
        """End all programs, those that serve others last; what does not end in time is killed.

        A second stop signal kills at once.
        """
        deadline = time.monotonic() + _GRACE_SECONDS
        for serves_others in (False, True):
            wave = [
                child.process
                for child in self.children
                if child.process is not None and child.program.serves_others is serves_others
            ]
            for process in wave:
                process.terminate()
            for process in wave:
                deadline = _wait_for_end(process, deadline)
                kill_group(process)
        self.children.clear()

    def last_line(self, name: str) -> str:
        """Return the last line that the program wrote to its log."""
        lines = self._log_path(name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing to its log."

    def _look_after(self, child: _Child, *, at: float) -> None:
        if child.process is None:
            if at >= child.starts_at:
                self._start(child)
            return
        code = child.process.poll()
        if code is None:
            return
        # What it started may have outlived it, and holds ports, locks and the broker.
        kill_group(child.process)
        child.process = None
        child.crashes.append(at)
        pause = restart_pause(child.crashes, at=at, first=self.first_pause_seconds)
        name = child.program.name
        if pause is None:
            raise UpError(
                f"`{name}` ended {CRASHES_ALLOWED} times within a minute, the last time with "
                f"{_ending(code)}: {self.last_line(name)} Its log is {self._log_path(name)}."
            )
        child.starts_at = at + pause
        self.say(f"`{name}` ended with {_ending(code)}; it starts again in {pause:g} s.")

    def _start(self, child: _Child) -> None:
        with self._open_log(child.program) as log:
            child.process = start_child(
                child.program,
                environment=self.environment,
                shared=(self.lock,),
                log=log,
                folder=self.folder,
            )

    def _log_path(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def _open_log(self, program: Program) -> BinaryIO:
        path = self._log_path(program.name)
        if path.exists() and path.stat().st_size > _LONGEST_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path.open("ab")


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def _wait_for_end(process: subprocess.Popen[bytes], deadline: float) -> float:
    """Wait for the process until the deadline; return the deadline, now if a signal asks to hurry."""
    while process.poll() is None and (left := deadline - time.monotonic()) > 0:
        if next_signal(min(left, 1.0)) in STOP_SIGNALS:
            return time.monotonic()
    return deadline
