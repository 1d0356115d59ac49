"""What all programs of a test have in common: started, found ready, stopped, killed, started again."""

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

from evalhub.supervisor.children import kill_group, start_child
from evalhub.supervisor.programs import Program
from tests.programs.processes import descendants, survivors, wait_for

ROOT = Path(__file__).parents[2]
_TICK_SECONDS = 0.05
_FIRST_PORT, _PORTS = 12_000, 20_000
_port_numbers = count(os.getpid() * 101)


class Server(ABC):
    """A program that serves a test. It logs into `folder` and ends with the test process at the latest.

    Start it from the main thread: the kernel ends it with the thread that started it.
    """

    start_seconds = 60.0
    # Above the grace of `manage.py up`, which is above gunicorn's; what takes longer is killed.
    stop_seconds = 40.0
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path, *, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._logged_before = 0

    @abstractmethod
    def program(self) -> Program:
        """Return what is started."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Say whether it does its work for others now."""

    def surroundings(self) -> Mapping[str, str]:
        """Return the environment variables that it is started with."""
        return os.environ

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.log.stem} has not been started.")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """Return what it has written since it was last started."""
        return self.log.read_bytes()[self._logged_before :].decode(errors="replace")

    def start(self) -> Self:
        """Start it and return when it is ready.

        Raises:
            RuntimeError: if it ends first, or is not ready in time.
        """
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start it without waiting for it.

        Raises:
            RuntimeError: if it runs already, or is not installed.
        """
        if self.is_running:
            raise RuntimeError(f"{self.log.stem} runs already.")
        program = self.program()
        with self.log.open("ab") as log:
            self._logged_before = log.tell()
            try:
                self._process = start_child(
                    program, environment=self.surroundings(), log=log, folder=ROOT
                )
            except FileNotFoundError as error:
                raise RuntimeError(
                    f"There is no {program.command[0]}: run `make setup`, which installs it."
                ) from error

    def wait_until_ready(self) -> None:
        """Return when it is ready.

        Raises:
            RuntimeError: if it ends first, or is not ready in time.
        """
        deadline = time.monotonic() + self.start_seconds
        while not self.is_ready():
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                last = "\n".join(self.said.splitlines()[-20:])
                raise RuntimeError(f"{self.log.stem} did not start:\n{last}")
            time.sleep(_TICK_SECONDS)

    def stop(self) -> None:
        """End it in good order, and whatever it leaves behind."""
        if self.is_running:
            self.process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self.stop_seconds)
        self.kill()

    def kill(self) -> None:
        """Kill it and all its descendants at once, as when their machine is lost."""
        if self._process is None:
            return
        family = descendants(self._process.pid)
        kill_group(self._process)
        for process in family:
            # Not all share the program's process group: PostgreSQL's have one each.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if not wait_for(lambda: not survivors(family), self.stop_seconds):
            raise RuntimeError(f"{self.log.stem} left {survivors(family)}.")

    def restart(self) -> None:
        """End it in good order and start it again, on what it has kept."""
        self.stop()
        self.start()


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback that nobody listens on.

    They lie below those that the system gives to connections, and each process begins elsewhere: a
    port is not taken before its server is started.
    """
    found: list[int] = []
    while len(found) < number:
        port = _FIRST_PORT + next(_port_numbers) % _PORTS
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]
