"""What agents left, copied into the lane's own hands before anything is done with it.

A sibling run can change or swap a file at any moment. So each is opened once; what is looked through for
secrets, measured and packed are the bytes of that copy. A large one lies in a file without a name beside
the segments: nobody can open it by a path, and nothing stays behind, however the lane ends.
"""

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from evalhub.runner.agent_files import LARGEST_FILE_BYTES
from evalhub.runner.errors import DISK_FULL, DiskFullError, InputError
from evalhub.runner.members import LeftFile, Member

_CHUNK = 2**16
# What is larger is not held in memory.
_SMALL_BYTES = 2**20
# What is held of one run at one time: of small ones in memory, of all on the disk, and of open files.
_MOST_SMALL_BYTES = 16 * 2**20
_MOST_BYTES = 256 * 2**20
_MOST_FILES = 16


class _Held(NamedTuple):
    """How much is held at one time."""

    small_bytes: int = 0
    all_bytes: int = 0
    files: int = 0

    def with_one_more(self, member: Member) -> "_Held":
        size, is_file = member.size_bytes, not isinstance(member.content, bytes)
        small = 0 if is_file else size
        return _Held(self.small_bytes + small, self.all_bytes + size, self.files + is_file)

    @property
    def is_enough(self) -> bool:
        return (
            self.small_bytes >= _MOST_SMALL_BYTES
            or self.all_bytes >= _MOST_BYTES
            or self.files >= _MOST_FILES
        )


def in_own_copies(
    members: Iterable[Member | LeftFile], *, folder: Path, leave_out: Callable[[str], None]
) -> Generator[list[Member], None, None]:
    """Yield members in groups that memory and disk hold, each usable until the next one is asked for.

    `leave_out` is told of each file that is not what it was when it was found.

    Raises:
        DiskFullError: if there is no room in `folder` for a copy.
        InputError: if none can be written there for another reason.
    """
    with ExitStack() as stack:
        group, held = list[Member](), _Held()
        for member in members:
            own = _own(member, folder, leave_out, stack) if isinstance(member, LeftFile) else member
            if own is None:
                continue
            group.append(own)
            if isinstance(member, LeftFile):
                held = held.with_one_more(own)
            if held.is_enough:
                yield group
                stack.close()
                group, held = [], _Held()
        if group:
            yield group


def _own(
    left: LeftFile, folder: Path, leave_out: Callable[[str], None], stack: ExitStack
) -> Member | None:
    """Return a member with a copy of a file, None if it is not to be had any more."""
    try:
        with left.file.opened() as source:
            content = _copied(source, folder, stack)
    except OSError as error:
        why = error.strerror or error
    else:
        if content is not None:
            return Member(left.path, content)
        why = f"it has more than {LARGEST_FILE_BYTES} bytes"
    leave_out(
        f"{left.path} was changed after its run had ended ({why}) and is not sent; expected the plain "
        "file that was found. Let no run write into the folder of another."
    )
    return None


def _copied(source: BinaryIO, folder: Path, stack: ExitStack) -> bytes | FileIO | None:
    """Return a copy of what a file holds now, None if that is too much; it may grow meanwhile."""
    head = source.read(_SMALL_BYTES + 1)
    if len(head) <= _SMALL_BYTES:
        return head
    copy = stack.enter_context(_nameless(folder))
    size, chunk = 0, head
    while chunk:
        size += len(chunk)
        if size > LARGEST_FILE_BYTES:
            copy.close()
            return None
        _write(copy, chunk)
        chunk = source.read(_CHUNK)
    return copy


def rewrite(copy: BinaryIO, data: bytes) -> None:
    """Let a copy hold other bytes.

    Raises:
        DiskFullError: if there is no room for them.
        InputError: if they cannot be written for another reason.
    """
    copy.seek(0)
    copy.truncate()
    _write(copy, data)


def _nameless(folder: Path) -> FileIO:
    with _told():
        return tempfile.TemporaryFile(dir=folder, buffering=0)


def _write(copy: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    with _told():
        while left:
            # Without a buffer, a write may take a part.
            left = left[copy.write(left) :]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"A copy of what a run left cannot be written: {error.strerror or error}"
        if error.errno in DISK_FULL:
            raise DiskFullError(f"{reason}; make room in the spool's folder.") from None
        raise InputError(f"{reason}; choose another place for the spool.") from None
