"""The data directory: made, locked against a second supervisor, and what lies where."""

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

from evalhub.supervisor.errors import UpError

# sun_path of Linux holds 108 bytes with its end.
_LONGEST_SOCKET_PATH = 107
# The programs of a supervisor that was killed need a moment to end; they hold its lock meanwhile.
_SECONDS_FOR_ORPHANS = 20.0


class DataDirectory(NamedTuple):
    """A data directory that this process has locked. `lock` is the open descriptor of the lock."""

    path: Path
    lock: int

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def redis_socket(self) -> Path:
        return self.run / "redis.sock"


def claim_data_directory(path: Path) -> DataDirectory:
    """Make the directory if need be and lock it for this process and its children.

    Children inherit the descriptor, so the lock lasts until the last of them has ended: a new
    supervisor never meets the programs of one that was killed.

    Raises:
        UpError: if it cannot be made, or another supervisor holds it.
    """
    try:
        # 0700: whoever reaches the sockets in here can give orders to the worker.
        (path / "run").mkdir(parents=True, exist_ok=True)
        (path / "run").chmod(0o700)
        (path / "logs").mkdir(exist_ok=True)
        lock = os.open(path / "run" / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UpError(
            f"The data directory {path} cannot be used ({error.strerror}); "
            "choose another with --data."
        ) from error
    directory = DataDirectory(path, lock)
    if len(os.fsencode(directory.redis_socket)) > _LONGEST_SOCKET_PATH:
        os.close(lock)
        raise UpError(
            f"The path {directory.redis_socket} is longer than the {_LONGEST_SOCKET_PATH} bytes "
            "that a unix socket may have; choose a shorter one with --data."
        )
    try:
        _take(directory)
    except UpError:
        os.close(lock)
        raise
    return directory


def _take(directory: DataDirectory) -> None:
    deadline = time.monotonic() + _SECONDS_FOR_ORPHANS
    while not _is_locked_now(directory.lock):
        owner = _owner(directory.lock)
        if owner is not None and _is_alive(owner):
            raise UpError(
                f"Another `up` (process {owner}) runs on {directory.path}; "
                "stop it, or choose another directory with --data."
            )
        if time.monotonic() > deadline:
            raise UpError(
                f"Programs of an earlier `up` still run on {directory.path}; wait until they have "
                "ended, or choose another directory with --data."
            )
        time.sleep(0.1)
    os.ftruncate(directory.lock, 0)
    os.pwrite(directory.lock, f"{os.getpid()}\n".encode(), 0)


def _is_locked_now(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}
