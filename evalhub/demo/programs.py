"""The programs of the demo: started so that none outlives it, and the `evalhub` client."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.supervisor.children import kill_group, start_child
from evalhub.supervisor.programs import Program

JsonObject = dict[str, Any]
_TICK_SECONDS = 0.1
# Above the supervisor's own grace, so that it can stop its programs in order.
_GRACE_SECONDS = 30


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class Running(NamedTuple):
    """A program that was started, and the files that take what it says."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    log: Path

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def last_words(self) -> str:
        """Return the end of what it said, for a message."""
        lines = (self.log.read_text(errors="replace") + self._said()).strip().splitlines()
        return " ".join(lines[-3:]) or "it said nothing."

    def _said(self) -> str:
        return self.output.read_text(errors="replace")

    def said_line(self, start: str) -> str | None:
        """Return the first whole line of its output that begins with `start`, without it."""
        for line in self._said().splitlines(keepends=True):
            if line.startswith(start) and line.endswith("\n"):
                return line.removeprefix(start).strip()
        return None


@dataclass
class Programs:
    """Starts programs in `folder` with what they say in files of `logs`; ends them all."""

    folder: Path
    logs: Path
    environment: Mapping[str, str]
    started: list[Running] = field(default_factory=list)

    def start(self, name: str, command: list[str], **variables: str) -> Running:
        """Start a program; it ends with the demo, however the demo ends."""
        output, log = self.logs / f"{name}.out", self.logs / f"{name}.err"
        with output.open("wb") as said, log.open("wb") as complained:
            process = start_child(
                Program(name, command),
                environment={**self.environment, **variables},
                log=complained,
                output=said,
                folder=self.folder,
            )
        running = Running(name, process, output, log)
        self.started.append(running)
        return running

    def finished(self, name: str, command: list[str], **variables: str) -> tuple[int, str]:
        """Run a program to its end; return its exit code and output."""
        running = self.start(name, command, **variables)
        code = running.process.wait()
        self.started.remove(running)
        return code, running.output.read_text(errors="replace")

    def wait_for(
        self, running: Running, found: Callable[[], str | None], *, seconds: float, what: str
    ) -> str:
        """Return what `found` finds, asking again and again while the program runs.

        Raises:
            DemoError: if the program ends first, or the time is over.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            value = found()
            if value is not None:
                return value
            if running.is_over:
                raise DemoError(f"`{running.name}` ended before {what}: {running.last_words()}")
            time.sleep(_TICK_SECONDS)
        raise DemoError(f"{what} did not come within {seconds:g} s; see {running.log}.")

    def stop(self) -> None:
        """End every program, the last started first, each with time to end its own children."""
        while self.started:
            running = self.started.pop()
            running.process.terminate()
            try:
                running.process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:
                kill_group(running.process)


@dataclass(frozen=True)
class Client:
    """The `evalhub` command as a user has it, with the store's address and a token."""

    programs: Programs
    url: str
    token: str

    @property
    def command(self) -> str:
        return str(Path(sys.executable).parent / "evalhub")

    @property
    def variables(self) -> dict[str, str]:
        return {"EVALHUB_URL": self.url, "EVALHUB_TOKEN": self.token}

    def ask(self, *arguments: str, good: tuple[int, ...] = (0,)) -> JsonObject:
        """Run a command with `--json` and return its answer.

        Raises:
            DemoError: if it ends with a code that is not in `good`.
        """
        name = "-".join(word for word in arguments[:2] if word.isalpha())
        command = [self.command, *arguments, "--json"]
        code, answer = self.programs.finished(name, command, **self.variables)
        if code not in good:
            complaint = (self.programs.logs / f"{name}.err").read_text(errors="replace").strip()
            raise DemoError(f"`evalhub {' '.join(arguments[:2])}` failed: {complaint or answer}")
        document: JsonObject = json.loads(answer)
        return document


def quiet_environment(data: Path) -> dict[str, str]:
    """Return this process's environment for the demo's programs.

    Without what a CI job sets, from which the client would take the source of a plan, and without
    another store's token.
    """
    foreign = ("GITHUB_", "ACTIONS_", "CI", "EVALHUB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "evalhub.settings",
        "EVALHUB_DATA": str(data),
        "PYTHONUNBUFFERED": "1",
    }
