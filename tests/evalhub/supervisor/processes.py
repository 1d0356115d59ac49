"""Real processes, found and watched through /proc."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]


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
            if fields[0] not in {"Z", "X"}:
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


class Up:
    """A real `manage.py up`, its output in a file."""

    def __init__(self, data: Path, port: int, **environment: str) -> None:
        self.data, self.port = data, port
        self.output = data.with_suffix(f".{time.monotonic_ns()}.out")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(port), "--data", str(data)],
                cwd=ROOT,
                env={**clean_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    def wait_until_ready(self) -> None:
        wait_for(lambda: "Ctrl-C stops" in self.said or self.process.poll() is not None, 90)
        assert f"evalhub is ready at http://127.0.0.1:{self.port}" in self.said

    def wait_for_family(self, *parts: str) -> set[Process]:
        """Wait until a process of each kind is there, then return all descendants."""

        def all_there() -> bool:
            commands = [process.command for process in descendants(self.process.pid)]
            return all(sum(part in command for command in commands) >= 2 for part in parts)

        assert wait_for(all_there, 30), descendants(self.process.pid)
        return descendants(self.process.pid)

    def end(self) -> None:
        """End it in any case, for the end of a test."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(40)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what names another database or broker."""
    dropped = {"CELERY_BROKER_URL", "DATABASE_URL", "EVALHUB_DATA", "EVALHUB_PUBLIC_URL"}
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, "DJANGO_SETTINGS_MODULE": "evalhub.settings"}
