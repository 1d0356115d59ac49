"""Who holds a spool: one process at a time, and whether a folder is the one that its lane wrote."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalhub.runner.errors import InputError

_LOCK = "lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# `is_held` of another process takes a moment; that is no reason to refuse a lane its own spool.
_TRIES = 5
_AGAIN_SECONDS = 0.05


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a spool folder for this process.

    Raises:
        InputError: if a living process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _is_taken(handle):
            raise InputError(
                f"{folder} is in use by a running lane or push; wait for its end, "
                "send what there is with --follow, or name another --spool."
            )
        # On a full disk the place stays unsaid: then a follower waits longer, and nothing else.
        with suppress(OSError):
            os.pwrite(handle, _place(folder).encode(), 0)
        yield
    finally:
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Say whether a living process of this machine holds a spool."""
    try:
        handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # A copy may have none, or one that is not for us.
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def is_original(folder: Path) -> bool:
    """Say whether this very folder was held before, on this machine since it started.

    Then a spool that nobody holds is one whose lane is gone. Of a copy nobody can say that: its lane
    may live elsewhere.
    """
    try:
        return (folder / _LOCK).read_bytes().startswith(_place(folder).encode())
    except OSError:
        return False


def _is_taken(handle: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_AGAIN_SECONDS)
        else:
            return True
    return False


def _place(folder: Path) -> str:
    """Return what no copy of a folder has: where it lies, on which machine."""
    found = folder.stat()
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{boot} {found.st_dev} {found.st_ino}\n"
