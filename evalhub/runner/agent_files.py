"""Finds and opens what an agent left in its run's folder, where nothing can be trusted to stay.

The agent names files as it likes, and another run of the lane can put a link or a pipe where a file was just
seen. So each step of a path is taken from the folder before it, through no link, and nothing blocks.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

LARGEST_FILE_BYTES = 64 * 2**20
# An agent that nests deeper or writes more than this wants to wear the lane out.
_DEEPEST_FOLDER = 32
_MOST_ENTRIES = 10_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What opening a link or a socket ends with.
_NOT_PLAIN = frozenset({errno.ELOOP, errno.ENXIO})


class AgentFile(NamedTuple):
    """A plain file when it was looked at: its name in a folder, below which no link is followed."""

    root: Path
    name: str
    size_bytes: int

    def opened(self) -> BinaryIO:
        """Open it, as it is now.

        Raises:
            OSError: if it is no plain file any more, or cannot be read.
        """
        return _opened(self.root, self.name)


def agent_files(root: Path, *, leave_out: Callable[[str], None]) -> Iterator[AgentFile]:
    """Yield the files below a folder by name; links and pipes of the agent are not followed.

    `leave_out` is called with a sentence for each thing that cannot be sent.
    """
    pending = [("", 0)] if _is_folder(root) else []
    seen = 0
    while pending:
        name, depth = pending.pop()
        try:
            mode = _mode(root, name)
            if stat.S_ISDIR(mode):
                if depth > _DEEPEST_FOLDER:
                    leave_out(f"{_shown(name)} lies more than {_DEEPEST_FOLDER} folders deep")
                    continue
                names = _names(root, name, most=_MOST_ENTRIES - seen, leave_out=leave_out)
                seen += len(names)
                # The last is taken first, so that files come in the order of their names.
                prefix = f"{name}/" if name else ""
                pending += [(prefix + n, depth + 1) for n in reversed(names)]
            elif stat.S_ISREG(mode):
                yield _readable(root, name)
            else:
                leave_out(f"{_shown(name)} is a link or a special file")
        except UnicodeEncodeError:
            leave_out(f"{_shown(name)} has a name that is not UTF-8")
        except OSError as error:
            leave_out(f"{_shown(name)} cannot be read: {error.strerror}")


@contextmanager
def plain_file(path: Path, *, leave_out: Callable[[str], None]) -> Iterator[BinaryIO | None]:
    """Open a file of the agent's folder, if neither it nor that folder is a link, nor a pipe that would block.

    None where there is none; of one that is not plain or not readable `leave_out` is told.
    """
    try:
        file = _opened(path.parent, path.name)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        leave_out(f"{path} cannot be read and is not sent: {error.strerror}.")
        yield None
        return
    with file:
        yield file


def _opened(root: Path, name: str) -> BinaryIO:
    try:
        with _above(root, name) as (folder, own):
            handle = os.open(own, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _not_plain() from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_plain()
    return os.fdopen(handle, "rb")


def _not_plain() -> OSError:
    return OSError(errno.EINVAL, "it is no plain file")


@contextmanager
def _above(root: Path, name: str) -> Iterator[tuple[int, str]]:
    """Give a handle of the folder in which a name lies, and the name's last part, for the block."""
    *folders, own = name.split("/")
    # The folder above is an agent's as well: that of the run, where this is its `files`.
    folders.insert(0, root.name)
    handle = os.open(root.parent, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle, own or "."
    finally:
        os.close(handle)


def _is_folder(root: Path) -> bool:
    try:
        return stat.S_ISDIR(root.lstat().st_mode)
    except OSError:
        return False


def _mode(root: Path, name: str) -> int:
    with _above(root, name) as (folder, own):
        return os.stat(own, dir_fd=folder, follow_symlinks=False).st_mode


def _names(root: Path, name: str, *, most: int, leave_out: Callable[[str], None]) -> list[str]:
    with _above(root, name) as (above, own):
        folder = os.open(own, _FOLDER, dir_fd=above)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, most + 1)]
    finally:
        os.close(folder)
    if len(names) > most:
        leave_out(
            f"there are more than {_MOST_ENTRIES} files and folders; the rest is not looked at"
        )
    return sorted(names[:most])


def _readable(root: Path, name: str) -> AgentFile:
    """Return a file that a segment can take, if it stays so."""
    name.encode()
    with _opened(root, name) as file:
        return AgentFile(root, name, os.fstat(file.fileno()).st_size)


def _shown(name: str) -> str:
    """Return a name for a sentence: bytes that are no UTF-8 as escapes, and not without end."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return f"files/{text if len(text) <= 200 else text[:200] + '…'}"
