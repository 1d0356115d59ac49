"""Real processes, found and watched through /proc."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process by id and start time, so that a reused id is not mistaken for it."""

    pid: int
    started: str
    parent: int
    command: str


def running_processes() -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            # One whose first thread has ended holds its ports while others end, in a write to a disk say.
            if fields[0] not in {"Z", "X"} or int(fields[17]) > 1:
                found.append(Process(int(folder.name), fields[19], int(fields[1]), command))
    return found


def descendants(pid: int) -> set[Process]:
    everything = running_processes()
    family = {pid}
    while True:
        more = {process.pid for process in everything if process.parent in family} - family
        if not more:
            return {p for p in everything if p.pid in family and p.pid != pid}
        family |= more


def survivors(family: set[Process]) -> list[str]:
    names = {(process.pid, process.started) for process in family}
    return [p.command for p in running_processes() if (p.pid, p.started) in names]


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return condition()
