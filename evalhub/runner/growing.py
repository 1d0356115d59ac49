"""A file of lines that an agent writes while its run goes on, taken part by part.

What was taken is known by a mark for each line, kept in the spool beside the parts (see `origins`). So
a file that was rewritten is told from one that has grown, by this process and by one after a crash.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple, Protocol

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.runner.documents import JsonObject
from evalhub.runner.members import Member

PART_BYTES = 1_000_000
_SKIPPED_BYTES = 2**20
_HALF = 8
_MARK_BYTES = 2 * _HALF
# Of a line of which only the part is known; it is like every line.
_UNKNOWN = bytes(_MARK_BYTES)


class Bounds(NamedTuple):
    """How much of a file is looked at: an agent that writes more wants to wear the lane out."""

    file_bytes: int
    lines: int
    line_bytes: int = 16 * 2**20
    at_once_bytes: int = 256 * 2**20
    """What is taken at one time, at least: the rest is for the next."""


WHOLE = Bounds(256 * 2**20, 1_000_000)
"""Of a run that is over. Turns have no higher numbers."""
LIVE = Bounds(64 * 2**20, 100_000)
"""Of a run that goes on, which is looked at again and again; what lies behind waits for its end."""


class Taken(NamedTuple):
    """How far a file lies in parts."""

    parts: int = 0
    marks: bytes = b""
    """Of each line that was taken and still counts, in order: what it is about, and what it says."""
    ever: bytes = b""
    """The marks of all lines that were ever taken."""
    turn: int = 0
    """The highest number of a turn."""
    shift: int = 0
    """What is added to the agent's own numbers since it rewrote the file."""
    shifted_from: int = 0
    """The first of the agent's own numbers to which that is added."""
    is_closed: bool = False
    """Whether the lane's own closing turn is among them."""

    @property
    def lines(self) -> int:
        return len(self.marks) // _MARK_BYTES

    def marks_ever(self) -> set[bytes]:
        """Return the marks of all lines that were ever taken, wherever they stood."""
        return _split(self.ever)


def subjects(marks: Iterable[bytes]) -> set[bytes]:
    """Return what lines are about, as their marks have it."""
    return {mark[:_HALF] for mark in marks}


class Parts(Protocol):
    """What is in segments: as much of a spool as is needed here."""

    def has(self, path: str) -> bool: ...
    def origin_of(self, path: str) -> JsonObject | None: ...
    def content_of(self, path: str) -> bytes: ...


def taken_of(spool: Parts, key: RunKey, kind: ItemKind) -> Taken:
    """Return how far a file of a run lies in a spool's segments."""
    taken = Taken()
    while spool.has(path := format_path(ItemPath(kind, key, part=taken.parts + 1))):
        origin = spool.origin_of(path) or _guessed_origin(spool.content_of(path), taken)
        marks = bytes.fromhex(origin["marks"])
        taken = Taken(
            parts=taken.parts + 1,
            marks=taken.marks[: origin["kept"] * _MARK_BYTES] + marks,
            ever=taken.ever + marks,
            turn=origin["turn"],
            shift=origin["shift"],
            shifted_from=origin["shifted_from"],
            is_closed=origin["closed"],
        )
    return taken


def _guessed_origin(part: bytes, taken: Taken) -> JsonObject:
    """Return what a part was made of where that is not told: as many lines as it has.

    So it is with a copy that is not whole yet, and with a spool of an earlier release.
    """
    lines = [line for line in part.split(b"\n") if line.strip()]
    try:
        last = json.loads(lines[-1])
        turn = int(last.get("turn", 0))
        is_closed = last.get("extra", {}).get("by") == "lane"
    except (IndexError, ValueError, AttributeError, TypeError):
        turn, is_closed = 0, False
    return {
        "kept": taken.lines,
        "marks": (_UNKNOWN * (len(lines) - is_closed)).hex(),
        "turn": max(turn, taken.turn),
        "shift": taken.shift,
        "shifted_from": taken.shifted_from,
        "closed": is_closed,
    }


# Reading


class Line(NamedTuple):
    """A line that is not blank: its number in the file, and its bytes with their end."""

    number: int
    data: bytes


class Reading(NamedTuple):
    """A file beside what was taken of it before."""

    kept: int
    """Lines at the beginning that are as they were taken."""
    lost: int
    """Lines that were taken and are not there any more: the file was rewritten or cut."""
    fresh: Iterator[Line]
    """The lines after those that were kept."""


def read_on(
    file: BinaryIO,
    taken: Taken,
    *,
    is_over: bool,
    bounds: Bounds,
    leave_out: Callable[[str], None],
) -> Reading:
    """Compare a file with what was taken of it, and go on behind that.

    While its run goes on, a last line without end is left for later, and a file that is only shorter
    may be about to be written again: nothing counts as lost then.
    """
    lines = _lines(file, is_over=is_over, bounds=bounds, leave_out=leave_out)
    kept = 0
    for line in lines:
        if kept < taken.lines and _is_marked(taken.marks, kept, line.data):
            kept += 1
            continue
        return Reading(kept, taken.lines - kept, chain([line], lines))
    return Reading(kept, taken.lines - kept if is_over else 0, iter(()))


def mark_of(line: bytes, *, about: str = "") -> bytes:
    """Return the mark of a line; `about` is what no two lines should tell of (a judge's call)."""
    return _short_digest(about.encode()) + _short_digest(line.rstrip(b"\n"))


def _is_marked(marks: bytes, index: int, line: bytes) -> bool:
    mark = marks[index * _MARK_BYTES : (index + 1) * _MARK_BYTES]
    return mark == _UNKNOWN or mark[_HALF:] == _short_digest(line.rstrip(b"\n"))


def _short_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_HALF).digest()


def _split(marks: bytes) -> set[bytes]:
    return {marks[i : i + _MARK_BYTES] for i in range(0, len(marks), _MARK_BYTES)}


def _lines(
    file: BinaryIO, *, is_over: bool, bounds: Bounds, leave_out: Callable[[str], None]
) -> Iterator[Line]:
    number = read = 0
    while line := file.readline(bounds.line_bytes + 1):
        number += 1
        read += len(line)
        is_whole = line.endswith(b"\n")
        if not is_whole and len(line) > bounds.line_bytes:
            if is_over:
                leave_out(f"line {number} has more than {bounds.line_bytes} bytes; it is left out")
            read += _skipped(file, most=bounds.file_bytes - read)
        elif (is_whole or is_over) and line.strip():
            yield Line(number, line)
        is_full = read >= bounds.file_bytes or number >= bounds.lines
        if is_full and file.peek(1):  # type: ignore[attr-defined]
            if is_over:
                leave_out(f"only its first {read} bytes are taken; the rest stays behind")
            return


def _skipped(file: BinaryIO, *, most: int) -> int:
    """Pass over the rest of a line; return how many bytes that were."""
    passed = 0
    while passed < most and (piece := file.readline(_SKIPPED_BYTES)):
        passed += len(piece)
        if piece.endswith(b"\n"):
            break
    return passed


# Writing


class PartsOf:
    """Lines on their way into parts of at most a megabyte, unless one line alone is longer."""

    def __init__(self, kind: ItemKind, key: RunKey, taken: Taken, *, kept: int) -> None:
        self._kind = kind
        self._key = key
        self._kept = kept
        self._marks = bytearray()
        self._lines: list[bytes] = []
        self._size = 0
        self.members: list[Member] = []
        self.parts = taken.parts
        self.turn = taken.turn
        self.shift = taken.shift
        self.shifted_from = taken.shifted_from
        self.is_closed = taken.is_closed
        self.size_bytes = 0

    def add(self, line: bytes, *, mark: bytes = b"") -> None:
        """Add a line; `mark` is that of the agent's line of which it was made."""
        whole = line if line.endswith(b"\n") else line + b"\n"
        if self._lines and self._size + len(whole) > PART_BYTES:
            self.end_part()
        self._lines.append(whole)
        self._marks += mark
        self._size += len(whole)
        self.size_bytes += len(whole)

    def pass_over(self, mark: bytes) -> None:
        """Know a line of the agent of which nothing is to be sent."""
        self._marks += mark

    def end_part(self) -> None:
        """Make a part of what was added since the last one, if there is anything."""
        if not self._lines:
            return
        self.parts += 1
        origin = {
            "kept": self._kept,
            "marks": self._marks.hex(),
            "turn": self.turn,
            "shift": self.shift,
            "shifted_from": self.shifted_from,
            "closed": self.is_closed,
        }
        path = format_path(ItemPath(self._kind, self._key, part=self.parts))
        self.members.append(Member(path, b"".join(self._lines), origin))
        self._kept += len(self._marks) // _MARK_BYTES
        self._marks = bytearray()
        self._lines, self._size = [], 0
