"""evalhub's own processes, started as an operator starts them."""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx
import yaml

from evalhub.supervisor.programs import Program
from tests.programs import tables
from tests.programs.processes import Process, descendants, wait_for
from tests.programs.server import ROOT, Server, free_port

Role = Literal["web", "worker", "beat"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
_READY_LINES = {"worker": " ready.", "beat": "beat: Starting..."}


class Evalhub:
    """One installation: what all of its processes share, whichever machines they run on.

    `parts` are the environments of the servers that it uses, and whatever else is to be set.
    """

    def __init__(self, folder: Path, *parts: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.environment = {
            **clean_environment(),
            "EVALHUB_DATA": str(folder / "data"),
            "EVALHUB_STATIC": str(folder / "static"),
            "EVALHUB_SECRET_KEY": secrets.token_urlsafe(32),
            # What is left to a sweep is not to be waited for long.
            "EVALHUB_SWEEP_SECONDS": "1",
        }
        for part in parts:
            self.environment.update(part)

    def prepare(self) -> None:
        """Make the tables and collect the static files."""
        self.make_tables()
        self.manage("collectstatic", "--no-input", "--verbosity", "0")

    def make_tables(self) -> None:
        """Bring the database to the newest tables."""
        url = self.environment.get("DATABASE_URL")
        if url is None:
            tables.make_sqlite_tables(self.folder / "data", self._migrate)
        else:
            tables.make_postgres_tables(url, self._migrate)

    def _migrate(self) -> None:
        self.manage("migrate", "--no-input", "--skip-checks", "--verbosity", "0")

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end and return what it printed.

        Raises:
            RuntimeError: if it fails, with what it wrote.
        """
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"`manage.py {arguments[0]}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def process(self, role: Role, *, name: str = "", **variables: str) -> "EvalhubProcess":
        """Return one of its processes, not started yet; those of one role need names."""
        return EvalhubProcess(self.folder / (name or role), role, {**self.environment, **variables})


class EvalhubProcess(Server):
    """One of evalhub's processes with a data directory of its own, as on a machine of its own.

    It is started by the command that docker/compose.yaml has for its container. `url` is where a web process answers.
    """

    def __init__(self, folder: Path, role: Role, environment: Mapping[str, str]) -> None:
        super().__init__(folder, name=role)
        self.role = role
        self.port = free_port() if role == "web" else 0
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **environment,
            "EVALHUB_DATA": str(folder / "data"),
            "EVALHUB_BIND": f"127.0.0.1:{self.port}",
        }

    def program(self) -> Program:
        python, *arguments = COMPOSE["services"][self.role]["command"]
        return Program(self.role, [{"python": sys.executable}[python], *arguments])

    def surroundings(self) -> Mapping[str, str]:
        return self.environment

    def is_ready(self) -> bool:
        if self.role == "web":
            return health(self.url) == "ok\n"
        return _READY_LINES[self.role] in self.said


class Up(Server):
    """A real `manage.py up` on a data directory."""

    start_seconds = 90.0

    def __init__(self, data: Path, **variables: str) -> None:
        super().__init__(data.parent, name="up")
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**clean_environment(), **variables}

    def program(self) -> Program:
        flags = ["--port", str(self.port), "--data", str(self.data)]
        return Program("up", [sys.executable, "manage.py", "up", *flags])

    def surroundings(self) -> Mapping[str, str]:
        return self.environment

    def is_ready(self) -> bool:
        return f"evalhub is ready at {self.url}" in self.said and "Ctrl-C stops" in self.said

    def wait_for_family(self, *parts: str) -> set[Process]:
        """Wait until two processes of each kind are there, then return all descendants."""

        def all_there() -> bool:
            commands = [process.command for process in descendants(self.process.pid)]
            return all(sum(part in command for command in commands) >= 2 for part in parts)

        assert wait_for(all_there, 30), descendants(self.process.pid)
        return descendants(self.process.pid)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what names another store, database or broker."""
    foreign = ("EVALHUB_", "GITHUB_", "ACTIONS_", "CELERY_", "DATABASE_URL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "DJANGO_SETTINGS_MODULE": "evalhub.settings", "PYTHONUNBUFFERED": "1"}


def health(url: str) -> str:
    """Return what the server's health page says, or why there is none."""
    try:
        return httpx.get(f"{url}/healthz", trust_env=False, timeout=5).text
    except httpx.HTTPError as error:
        return str(error)
