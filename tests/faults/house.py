"""Whole installations out of real programs, each of which a test may stop, freeze, fill up or kill."""

import json
import re
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg

from evalhub.supervisor.programs import Program
from evidence.store.storage import DirectoryStore, ObjectStore, S3Store
from tests.faults.relay import Relay
from tests.faults.shifted_clock import ShiftedClock
from tests.faults.small_disk import SmallDisk
from tests.lanes.factories import POLICY, suite_document
from tests.programs.evalhub import Evalhub, Up
from tests.programs.github import GitHubStandIn
from tests.programs.postgres import PostgresServer
from tests.programs.redis import RedisServer
from tests.programs.s3 import S3Server
from tests.programs.server import ROOT, Server

PROJECT = "acme/support-agent"
REPOSITORY_ID = 1296269
_QUICK = {
    "EVALHUB_SWEEP_SECONDS": "1",
    "EVALHUB_HEARTBEAT_SECONDS": "1",
    "EVALHUB_FLUSH_SECONDS": "1",
}
_QUERY = """
import json, sqlite3, sys
path, statement, values = json.load(sys.stdin)
print(json.dumps(sqlite3.connect(path, timeout=20).execute(statement, values).fetchall()))
"""


class House(ABC):
    """What lanes, people and tests see of an installation, however it is made."""

    def __init__(self, folder: Path, clock: ShiftedClock | None) -> None:
        self.folder = folder
        self.clock = clock
        self.github = GitHubStandIn(folder / "github")
        self.token = ""
        self.policy_digest = ""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def objects(self) -> ObjectStore:
        """Return its object store, reached without anything of a test between."""

    @abstractmethod
    def programs(self) -> list[Server]:
        """Return what a test may have stopped, in the order in which it starts."""

    @abstractmethod
    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it printed."""

    @abstractmethod
    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]: ...

    def furnish(self) -> None:
        """Make the project with its suite and policy."""
        flags = ["--repository-id", str(REPOSITORY_ID), "--default-branch", "main"]
        made = self.manage("create_project", PROJECT, *flags, "--checks-for-unverified", "--json")
        self.token = json.loads(made)["token"]
        suite = suite_document(scenarios=[("s1", "orders")])
        answered(self.request("PUT", f"projects/{PROJECT}/suite", json=suite))
        policy = answered(self.request("PUT", f"projects/{PROJECT}/policy", json=POLICY))
        self.policy_digest = policy["digest"]

    def recover(self) -> None:
        """Start whatever a test has left stopped, and put its clock right."""
        if self.clock is not None:
            self.clock.set(timedelta())
        for program in self.programs():
            if not program.is_running:
                program.start()
            thaw(program)

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Ask the API as somebody with the project's token."""
        headers = {"Authorization": f"Bearer {self.token}", **arguments.pop("headers", {})}
        address = f"{self.url}/api/v1/{path}"
        return httpx.request(
            method, address, headers=headers, timeout=60, trust_env=False, **arguments
        )

    def sweeps(self) -> dict[str, Any]:
        """Return when each sweep was last done, by the clock that it saw."""
        return dict(
            self.rows(
                "SELECT name, finished_at FROM evalhub_tasks_sweeprun WHERE name LIKE '%.sweep%'"
            )
        )

    def page(self, path: str) -> httpx.Response:
        """Ask for a page as somebody who has signed in."""
        address = f"{self.url}{path}"
        return httpx.get(address, cookies=self.signed_in, timeout=60, trust_env=False)

    @cached_property
    def signed_in(self) -> dict[str, str]:
        """Return the cookies of somebody who has signed in."""
        link = urlsplit(self.manage("sign_in_link").split()[-1]).path
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as person:
            form = person.get(link)
            (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
            fields = {"csrfmiddlewaretoken": token}
            person.post(link, data=fields, headers={"Referer": str(form.url)})
            return dict(person.cookies)


class ScatteredHouse(House):
    """PostgreSQL, Redis, an S3 behind a relay; web, worker and beat as on machines of their own."""

    def __init__(self, folder: Path, clock: ShiftedClock | None, disk: SmallDisk | None) -> None:
        super().__init__(folder, clock)
        self.disk = disk
        self.postgres = _postgres(folder / "postgres", disk)
        self.redis = RedisServer(folder / "redis")
        self.s3 = S3Server(folder / "s3")
        self.relay = Relay(self.s3.place.endpoint_url or "")
        self.evalhub = Evalhub(
            folder / "evalhub",
            self.postgres.environment,
            self.redis.environment,
            self.s3.environment,
            self.github.environment,
            {"EVALHUB_S3_ENDPOINT_URL": self.relay.url},
            _QUICK,
            clock.environment if clock is not None else {},
        )
        self.web = self.evalhub.process("web")
        self.worker = self.evalhub.process("worker")
        self.beat = self.evalhub.process("beat")

    @contextmanager
    def standing(self) -> Iterator["ScatteredHouse"]:
        foreign = [self.postgres, self.redis, self.s3, self.github]
        own = [self.web, self.worker, self.beat]
        with ExitStack() as stack:
            stack.callback(self.relay.close)
            for program in foreign:
                # Killed at the end: there is nothing to be kept, and it is quicker.
                stack.callback(program.kill)
                program.start()
            self.evalhub.prepare()
            for program in own:
                stack.callback(program.kill)
                program.launch()
            for program in own:
                program.wait_until_ready()
            self.furnish()
            yield self

    def recover(self) -> None:
        self.relay.slow_down = 0
        self.relay.release()
        if self.disk is not None:
            self.disk.clear()
        super().recover()

    def programs(self) -> list[Server]:
        foreign: list[Server] = [self.postgres, self.redis, self.s3, self.github]
        return [*foreign, self.web, self.worker, self.beat]

    @property
    def url(self) -> str:
        return self.web.url

    @property
    def objects(self) -> ObjectStore:
        return S3Store(self.s3.place)

    def manage(self, *arguments: str) -> str:
        return self.evalhub.manage(*arguments)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.url) as connection:
            return connection.execute(statement, values or None).fetchall()

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Let a table be read but not written: whoever writes waits, in the middle of a transaction.

        Until the end of the block, or of the database before.
        """
        connection = psycopg.connect(self.postgres.url)
        connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
        try:
            yield
        finally:
            connection.close()

    def is_somebody_waiting(self) -> bool:
        """Say whether somebody waits for a lock."""
        statement = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return bool(self.rows(statement))


class OneMachine(House):
    """`manage.py up`: SQLite, objects in a directory and Redis, all on one small disk."""

    def __init__(self, folder: Path, clock: ShiftedClock | None, disk: SmallDisk) -> None:
        super().__init__(folder, clock)
        self.disk = disk
        self._data = disk.place / "data"
        shown = clock.environment if clock is not None else {}
        self.up = _UpInside(disk, self._data, **self.github.environment, **_QUICK, **shown)

    @contextmanager
    def standing(self) -> Iterator["OneMachine"]:
        with ExitStack() as stack:
            for program in self.programs():
                stack.callback(program.kill)
                program.start()
            self.furnish()
            yield self

    def recover(self) -> None:
        self.disk.clear()
        super().recover()

    def programs(self) -> list[Server]:
        return [self.github, self.up]

    @property
    def url(self) -> str:
        return self.up.url

    @property
    def objects(self) -> ObjectStore:
        return DirectoryStore(self.disk.path / "data" / "objects")

    def manage(self, *arguments: str) -> str:
        environment = {**self.up.environment, "EVALHUB_DATA": str(self._data)}
        command = [sys.executable, "manage.py", *arguments]
        return _output([*self.disk.entrance, *command], environment=environment)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        query = [str(self._data / "evalhub.sqlite3"), statement.replace("%s", "?"), values]
        command = [*self.disk.entrance, sys.executable, "-c", _QUERY]
        found = json.loads(_output(command, stdin=json.dumps(query)))
        return [tuple(row) for row in found]


class _UpInside(Up):
    """`manage.py up` that finds its data directory on a small disk."""

    def __init__(self, disk: SmallDisk, data: Path, **variables: str) -> None:
        super().__init__(disk.folder / "up" / "data", **variables)
        self.data = data
        self._disk = disk

    def program(self) -> Program:
        program = super().program()
        return program._replace(command=[*self._disk.entrance, *program.command])


class _PostgresInside(PostgresServer):
    """A PostgreSQL whose cluster lies on a small disk."""

    def __init__(self, folder: Path, disk: SmallDisk) -> None:
        super().__init__(folder, tcp=True, durable=True, cluster=disk.place)
        self._disk = disk
        self._prefix = [*disk.entrance, *self._prefix]
        # Else its log of changes would grow to a gigabyte.
        self._options |= {"max_wal_size": "64MB", "min_wal_size": "32MB"}

    def launch(self) -> None:
        if (self._disk.path / "data").exists():
            # Seen from outside of the disk it is never there.
            Server.launch(self)
        else:
            super().launch()


def _postgres(folder: Path, disk: SmallDisk | None) -> PostgresServer:
    if disk is None:
        return PostgresServer(folder, tcp=True, durable=True)
    return _PostgresInside(folder, disk)


def _output(
    command: list[str], *, environment: Mapping[str, str] | None = None, stdin: str | None = None
) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answered(response: httpx.Response) -> dict[str, Any]:
    """Return the document of a good answer."""
    assert response.is_success, response.text
    document: dict[str, Any] = response.json()
    return document


def freeze(program: Server) -> None:
    """Stop a program in its tracks: its connections stay open, and nothing answers."""
    program.process.send_signal(signal.SIGSTOP)


def thaw(program: Server) -> None:
    program.process.send_signal(signal.SIGCONT)
