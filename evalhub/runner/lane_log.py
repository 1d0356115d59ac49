"""`log:agent`: what the runs of a lane write to their output, each line with its run key."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.runner.members import Member
from evalhub.runner.redaction import LogLines, Redaction
from evalhub.runner.spool import Spool

NAME = "agent"
_PART_BYTES = 1_000_000
# A run that writes more than this is in a loop; its beginning and its end are kept.
_MOST_RUN_BYTES = 8 * 2**20
_TAIL_LINES = 40
_PREFIX = f"lane/logs/{NAME}."


class RunOutput:
    """The output of one run: goes to the lane's log, and its last lines are remembered.

    Secrets are replaced before either. Safe to use from one thread at a time.
    """

    def __init__(self, label: str, write: Callable[[bytes], None], *, redaction: Redaction) -> None:
        self._label = label.encode()
        self._write = write
        self._kept_bytes = 0
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._lines = LogLines(redaction)

    def line(self, text: bytes) -> None:
        """Keep one line."""
        for clean in self._lines.cleaned(text):
            self._keep(clean)

    def _keep(self, text: bytes) -> None:
        self._tail.append(text)
        if self._kept_bytes > _MOST_RUN_BYTES:
            return
        self._kept_bytes += len(text)
        if self._kept_bytes > _MOST_RUN_BYTES:
            text = b"(more output of this run is not kept)"
        self._write(b"[" + self._label + b"] " + text + b"\n")

    def tail(self) -> str:
        """Return the last lines, once the run is over."""
        for clean in self._lines.rest():
            self._keep(clean)
        return b"\n".join(self._tail).decode(errors="replace")


class LaneLog:
    """The lane's log file, and how much of it lies in segments. Safe to use from several threads.

    What the disk has no room for is left out, counted, and told: a full disk ends no run.
    """

    def __init__(self, spool: Spool, *, report: Callable[[str], None]) -> None:
        self._spool = spool
        self._report = report
        self._left_out = 0
        self._is_unsafe = False
        self._path = spool.folder / "logs" / f"{NAME}.log"
        self._guard = threading.Lock()
        self._file = self._path.open("ab", buffering=0)

    def output_of(self, label: str) -> RunOutput:
        return RunOutput(label, self._append, redaction=self._spool.redaction)

    def note(self, text: str) -> None:
        """Write a line of the lane's own."""
        self._append(self._spool.redaction.cleaned_line(f"# {text}\n".encode()))

    def _append(self, data: bytes) -> None:
        with self._guard:
            try:
                if self._left_out:
                    self._write(f"\n# {self._left_out} lines could not be kept: no room\n".encode())
                    self._left_out = 0
                self._write(data)
            except OSError as error:
                if not self._left_out:
                    self._report(
                        f"{self._path} cannot be written: {error.strerror}; lines of output are left "
                        "out until it can."
                    )
                self._left_out += 1

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def sync(self) -> None:
        """See to it that what was written so far outlives the machine."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if not self._is_unsafe:
                self._report(
                    f"{self._path} cannot be made safe against a loss of power: {error.strerror}; "
                    "what is sent is not concerned."
                )
            self._is_unsafe = True

    def members(self, *, is_over: bool) -> list[Member]:
        """Return what is in no segment yet, in parts."""
        return fresh_log_members(self._spool, is_over=is_over)

    def close(self) -> None:
        self._file.close()


def fresh_log_members(spool: Spool, *, is_over: bool) -> list[Member]:
    """Return the parts of a spool's log that are in no segment yet: whole lines, while it grows."""
    path = spool.folder / "logs" / f"{NAME}.log"
    number, end = spool.count(_PREFIX), _end_of_the_last_part(spool)
    members = []
    for data in _chunks(path, start=end, is_over=is_over):
        number, end = number + 1, end + len(data)
        members.append(Member(_part_path(number), data, {"end": end}))
    return members


def _end_of_the_last_part(spool: Spool) -> int:
    origin = spool.origin_of(_part_path(spool.count(_PREFIX)))
    # A spool of an earlier release does not tell, and has the log as it is.
    return int(origin["end"]) if origin is not None else spool.cut_bytes(_PREFIX)


def _part_path(number: int) -> str:
    return format_path(ItemPath(ItemKind.LOG, part=number, name=NAME))


def _chunks(path: Path, *, start: int, is_over: bool) -> Iterator[bytes]:
    """Yield the file in pieces that end with a line: what is looked for in a line is found there."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            pending = b""
            while chunk := file.read(_PART_BYTES - len(pending)):
                pending += chunk
                end = pending.rfind(b"\n") + 1
                if not end and len(pending) >= _PART_BYTES:
                    end = len(pending)
                if end:
                    yield pending[:end]
                pending = pending[end:]
            if is_over and pending:
                yield pending
    except FileNotFoundError:
        return
