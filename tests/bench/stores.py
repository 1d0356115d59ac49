"""Generated stores in both databases, kept in a folder, and the switch from one to the other."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dj_database_url
import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from tests.programs.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
SMALL = 10_000


class Store:
    """A store of `runs` generated runs, in the folder and the database that `environment` names."""

    def __init__(self, runs: int, folder: Path, *, url: str | None) -> None:
        self.runs, self.folder = runs, folder
        self.environment = {"EVALHUB_DATA": str(folder)} | ({"DATABASE_URL": url} if url else {})
        name = settings.DATABASES["default"] | {"NAME": folder / "evalhub.sqlite3"}
        self._handler = ConnectionHandler(
            {"default": dj_database_url.parse(url, conn_max_age=600) if url else name}
        )

    @property
    def is_whole(self) -> bool:
        return self._mark.exists()

    @property
    def _mark(self) -> Path:
        return self.folder / "generated"

    def fill(self) -> None:
        """Generate what belongs into it, and bring its tables up to date."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._manage("migrate", "--verbosity", "0")
        if not self.is_whole:
            self._manage("generate", "--runs", str(self.runs))
            self._mark.touch()

    def use(self) -> None:
        """Let all that follows work on this store."""
        connections["default"] = self.connection
        settings.DATA_DIR = self.folder
        settings.OBJECTS_DIR = self.folder / "objects"

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return self._handler["default"]

    def _manage(self, *arguments: str) -> None:
        environment: dict[str, Any] = {**os.environ, **self.environment}
        environment["DJANGO_SETTINGS_MODULE"] = "evalhub.settings"
        command = [sys.executable, "manage.py", *arguments]
        subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=sys.stderr)


@contextmanager
def sqlite_stores(data: Path, *, runs: int) -> Iterator[tuple[Store, Store]]:
    """Yield a small store, always a new one, and a large one, which is kept for the next time."""
    shutil.rmtree(data / f"sqlite-{SMALL}", ignore_errors=True)
    pair = [Store(n, data / f"sqlite-{n}", url=None) for n in (SMALL, runs)]
    for store in pair:
        if not store.is_whole:
            shutil.rmtree(store.folder, ignore_errors=True)
        store.fill()
    yield pair[0], pair[1]


@contextmanager
def postgres_stores(data: Path, *, runs: int) -> Iterator[tuple[Store, Store]]:
    """Yield such stores in a PostgreSQL of their own, which ends with the block."""
    cluster = data / "postgres"
    cluster.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(data / f"postgres-{SMALL}", ignore_errors=True)
    server = PostgresServer(data, cluster=cluster, durable=True)
    server._forget.detach()
    with server:
        pair = []
        for n in (SMALL, runs):
            store = Store(n, data / f"postgres-{n}", url=server.url_of(f"runs_{n}"))
            if not store.is_whole:
                shutil.rmtree(store.folder, ignore_errors=True)
                with psycopg.connect(server.url_of("postgres"), autocommit=True) as admin:
                    admin.execute(f"DROP DATABASE IF EXISTS runs_{n}")
                    admin.execute(f"CREATE DATABASE runs_{n}")
            was_whole = store.is_whole
            store.fill()
            if not was_whole:
                # What autovacuum would have done by the time that a store has grown so large.
                with psycopg.connect(server.url_of(f"runs_{n}"), autocommit=True) as database:
                    database.execute("VACUUM (ANALYZE)")
            pair.append(store)
        yield pair[0], pair[1]
