"""A real file system that is small, and so soon full."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from evalhub.supervisor.programs import Program
from tests.programs.processes import descendants
from tests.programs.server import ROOT, Server

_FILLER = "filler"
_CHUNK = b"\0" * 2**16


class SmallDisk(Server):
    """A `tmpfs` of a few MiB, mounted by a process in a mount namespace of its own.

    `path` leads there, also for programs outside of it. It cannot be started where nobody may mount.
    """

    start_seconds = 10.0

    def __init__(self, folder: Path, *, mebibytes: int) -> None:
        super().__init__(folder, name="disk")
        self.place = folder / "disk"
        self.place.mkdir(exist_ok=True)
        self._mebibytes = mebibytes

    def program(self) -> Program:
        unshare = ["unshare", "--mount", "--propagation", "private", "--fork", "--kill-child"]
        if os.geteuid() != 0:
            unshare.append("--map-root-user")
        mount = f"mount -t tmpfs -o size={self._mebibytes}m,mode=0777 small '{self.place}'"
        script = f"{mount} && echo mounted && exec sleep infinity"
        return Program("disk", [*unshare, "sh", "-c", script], signal.SIGKILL)

    def is_ready(self) -> bool:
        return self.said.strip() == "mounted"

    @cached_property
    def _holder(self) -> int:
        (holder,) = descendants(self.process.pid)
        return holder.pid

    @property
    def path(self) -> Path:
        return Path(f"/proc/{self._holder}/root{self.place}")

    @property
    def entrance(self) -> list[str]:
        """Return what is put before a command so that it finds the disk at `place`.

        For programs that look where a path really leads, as SQLite does.
        """
        own = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
        enter = ["nsenter", f"--target={self._holder}", "--mount", *own]
        # It leads to the root of the namespace.
        return [*enter, "env", f"--chdir={ROOT}"]

    def fill(self, *, but: int = 0) -> None:
        """Take all room but so many bytes."""
        with (self.path / _FILLER).open("ab", buffering=0) as file:
            while (left := shutil.disk_usage(self.path).free - but) > 0:
                file.write(_CHUNK[:left])

    def clear(self) -> None:
        """Give back what `fill` took."""
        (self.path / _FILLER).unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, *, mebibytes: int) -> Iterator[SmallDisk | None]:
    """Mount a small disk for the block; None where this machine lets nobody mount one."""
    disk = SmallDisk(folder, mebibytes=mebibytes)
    try:
        disk.start()
    except RuntimeError:
        yield None
        return
    try:
        yield disk
    finally:
        disk.kill()
