"""An installation out of real programs for a bench or a crash: its web server, worker and clock on one machine."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from evidence.store.storage import DirectoryStore, ObjectStore, S3Store
from tests.faults.house import House
from tests.programs.evalhub import Evalhub
from tests.programs.postgres import PostgresServer
from tests.programs.redis import RedisServer
from tests.programs.s3 import S3Server
from tests.programs.server import Server


class Installation(House):
    """Redis, web, worker and beat by the commands of `docker/`, sharing one data directory.

    SQLite, or a PostgreSQL that keeps what it has committed; objects in a directory, or in an S3.
    """

    def __init__(
        self,
        folder: Path,
        *,
        postgres: bool = False,
        s3: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, clock=None)
        self.redis = RedisServer(folder / "redis")
        self.postgres = PostgresServer(folder / "postgres", durable=True) if postgres else None
        self.s3 = S3Server(folder / "s3") if s3 else None
        servers = [one for one in (self.redis, self.postgres, self.s3) if one is not None]
        self.evalhub = Evalhub(
            folder / "evalhub",
            *(server.environment for server in servers),
            {"EVALHUB_SWEEP_SECONDS": "10", **(settings or {})},
        )
        self.data = Path(self.evalhub.environment["EVALHUB_DATA"])
        # SQLite and the directory are there for all of them, as in `manage.py up`.
        shared = {"EVALHUB_DATA": str(self.data)}
        self.web = self.evalhub.process("web")
        self.worker = self.evalhub.process("worker")
        self.beat = self.evalhub.process("beat")
        for process in (self.web, self.worker, self.beat):
            process.environment |= shared
        self._servers: list[Server] = [*servers]

    @contextmanager
    def standing(self) -> Iterator["Installation"]:
        """Start everything for the block and make the project; kill it at the end."""
        with ExitStack() as stack:
            for server in self._servers:
                stack.callback(server.kill)
                server.start()
            self.evalhub.prepare()
            own = [self.web, self.worker, self.beat]
            for program in own:
                stack.callback(program.kill)
                program.launch()
            for program in own:
                program.wait_until_ready()
            self.furnish()
            yield self

    @property
    def url(self) -> str:
        return self.web.url

    @property
    def objects(self) -> ObjectStore:
        return S3Store(self.s3.place) if self.s3 else DirectoryStore(self.data / "objects")

    def programs(self) -> list[Server]:
        return [*self._servers, self.web, self.worker, self.beat]

    def manage(self, *arguments: str) -> str:
        return self.evalhub.manage(*arguments)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        if self.postgres is not None:
            with psycopg.connect(self.postgres.url) as connection:
                return connection.execute(statement, values or None).fetchall()
        path = self.data / "evalhub.sqlite3"
        with closing(sqlite3.connect(path, timeout=20)) as database:
            return database.execute(statement.replace("%s", "?"), values).fetchall()
