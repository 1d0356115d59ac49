"""One run of the agent as a process: started behind its guardian, read line by line, ended for sure."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from evalhub.runner.errors import RunnerError

GUARDIAN = Path(__file__).with_name("guardian.py")

# The guardian gives the agent two seconds; this is for the guardian itself.
_STOP_SECONDS = 4.0
_LONGEST_LINE_BYTES = 64 * 1024
_LONGEST_WORD_BYTES = 4 * 1024
_READ_BYTES = 64 * 1024


class RunEnd(NamedTuple):
    """How a command ended: by itself with a code (negative: a signal's number), or not started."""

    started: bool
    exit_code: int | None
    error: str | None = None


class GuardianLostError(RunnerError):
    """The guardian of a run ended without a word: something killed it."""


class RunProcess:
    """A started command. `poll` until it is over, or `end` it; both are safe to repeat.

    Start it from a thread that lives as long as the run: the kernel ends the guardian with the thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: Callable[[bytes], None],
    ) -> None:
        status_read, status_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(GUARDIAN),
                    str(os.getpid()),
                    str(status_write),
                    *command,
                ],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(status_write,),
            )
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(status_write)
        self._status = os.fdopen(status_read, "rb")
        self._end: RunEnd | None = None
        output = self._process.stdout
        assert output is not None  # noqa: S101 - a pipe was asked for
        self._reader = threading.Thread(
            target=_read_lines, args=(output, on_line), name="agent-output", daemon=True
        )
        self._reader.start()

    def wait(self, seconds: float) -> RunEnd | None:
        """Wait that long for the end; return it, or None while the command runs.

        Raises:
            GuardianLostError: if the guardian was killed; the agent was killed with it.
        """
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self._reported()

    def end(self) -> None:
        """End the command and everything that it started; return when they are gone."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()

    def _reported(self) -> RunEnd:
        if self._end is None:
            line = self._status.readline()
            self._close()
            if not line:
                raise GuardianLostError(
                    f"The guardian of the run ended with code {self._process.returncode} and "
                    "without a report; look for what killed it (memory?) and run the lane again."
                )
            report = json.loads(line)
            self._end = RunEnd(report["started"], report.get("exit_code"), report.get("error"))
        return self._end

    def _close(self) -> None:
        # Everything that held the pipe's other end is dead, so the reader comes to its end.
        self._reader.join(_STOP_SECONDS)
        self._status.close()


def _read_lines(output: BinaryIO, on_line: Callable[[bytes], None]) -> None:
    """Hand on each line without its end; of one that is too long the beginning alone."""
    pending, is_too_long = b"", False
    with output:
        while chunk := output.read1(_READ_BYTES):  # type: ignore[attr-defined]
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                if not is_too_long:
                    on_line(_bounded(pending + line))
                pending, is_too_long = b"", False
            if not is_too_long:
                pending += rest
                if len(pending) > _LONGEST_LINE_BYTES:
                    on_line(_bounded(pending))
                    pending, is_too_long = b"", True
    if pending:
        on_line(_bounded(pending))


def _bounded(line: bytes) -> bytes:
    """Return a line, or the beginning of a long one up to a space: no half of a word that is a secret."""
    if len(line) <= _LONGEST_LINE_BYTES:
        return line
    shortest = _LONGEST_LINE_BYTES - _LONGEST_WORD_BYTES
    end = max(line.rfind(b" ", shortest, _LONGEST_LINE_BYTES), shortest)
    return line[:end] + b" (the rest of this line is not kept)"
