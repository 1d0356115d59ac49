"""Finds what an agent left below `files/`. The agent names files as it likes, so nothing here trusts a name."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

# An agent that nests deeper or writes more than this wants to wear the lane out.
_DEEPEST_FOLDER = 32
_MOST_ENTRIES = 10_000


class AgentFile(NamedTuple):
    """A plain file that can be read: where it lies, and its name relative to `files/`."""

    path: Path
    name: str
    size_bytes: int


def agent_files(root: Path, *, leave_out: Callable[[str], None]) -> Iterator[AgentFile]:
    """Yield the files below a folder by name; links and pipes of the agent are not followed.

    `leave_out` is called with a sentence for each thing that cannot be sent.
    """
    pending = [(root, "", 0)] if _is_folder(root) else []
    seen = 0
    while pending:
        path, name, depth = pending.pop()
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                if depth > _DEEPEST_FOLDER:
                    leave_out(f"{_shown(name)} lies more than {_DEEPEST_FOLDER} folders deep")
                    continue
                names = _names(path, most=_MOST_ENTRIES - seen, leave_out=leave_out)
                seen += len(names)
                # The last is taken first, so that files come in the order of their names.
                prefix = f"{name}/" if name else ""
                pending += [(path / n, prefix + n, depth + 1) for n in reversed(names)]
            elif stat.S_ISREG(mode):
                yield _readable(path, name)
            else:
                leave_out(f"{_shown(name)} is a link or a special file")
        except UnicodeEncodeError:
            leave_out(f"{_shown(name)} has a name that is not UTF-8")
        except OSError as error:
            leave_out(f"{_shown(name)} cannot be read: {error.strerror}")


@contextmanager
def plain_file(path: Path, *, leave_out: Callable[[str], None]) -> Iterator[BinaryIO | None]:
    """Open a file that the agent may have made, never through a link, never a pipe that would block.

    None where there is none; of one that is not plain or not readable `leave_out` is told.
    """
    file = _opened(path, leave_out)
    if file is None:
        yield None
        return
    with file:
        yield file


def _opened(path: Path, leave_out: Callable[[str], None]) -> BinaryIO | None:
    try:
        handle = _handle(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        leave_out(f"{path} cannot be read and is not sent: {error.strerror}.")
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        leave_out(f"{path} is no plain file and is not sent.")
        return None
    return os.fdopen(handle, "rb")


def _handle(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_folder(root: Path) -> bool:
    try:
        return stat.S_ISDIR(root.lstat().st_mode)
    except OSError:
        return False


def _names(folder: Path, *, most: int, leave_out: Callable[[str], None]) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, most + 1)]
    if len(names) > most:
        leave_out(
            f"there are more than {_MOST_ENTRIES} files and folders; the rest is not looked at"
        )
    return sorted(names[:most])


def _readable(path: Path, name: str) -> AgentFile:
    """Return a file that a segment can take: one that is not readable would end the lane there."""
    name.encode()
    handle = _handle(path)
    try:
        return AgentFile(path, name, os.fstat(handle).st_size)
    finally:
        os.close(handle)


def _shown(name: str) -> str:
    """Return a name for a sentence: bytes that are no UTF-8 as escapes, and not without end."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return f"files/{text if len(text) <= 200 else text[:200] + '…'}"
