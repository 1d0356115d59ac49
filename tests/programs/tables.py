"""Databases with all tables, migrated once in a test process and copied: to migrate takes seconds."""

import atexit
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg

from tests.programs.postgres import installed_programs

SQLITE_NAME = "evalhub.sqlite3"


def make_sqlite_tables(data: Path, migrate: Callable[[], object]) -> None:
    """Put a database with all tables into a data directory that may have none yet."""
    database, kept = data / SQLITE_NAME, _folder() / SQLITE_NAME
    if database.exists():
        migrate()
        return
    if kept.exists():
        data.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, database)
        return
    migrate()
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(kept)) as copy:
        source.backup(copy)


def make_postgres_tables(url: str, migrate: Callable[[], object]) -> None:
    """Make all tables in a PostgreSQL database that may have none yet."""
    kept = _folder() / "tables.sql"
    if _has_tables(url) or not kept.exists():
        migrate()
        if not kept.exists():
            _run("pg_dump", "--dbname", url, "--no-owner", "--file", str(kept))
        return
    _run("psql", "--dbname", url, "--quiet", "-v", "ON_ERROR_STOP=1", "--file", str(kept))


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="evalhub-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _has_tables(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
    return found is not None and found[0] is not None


def _run(program: str, *arguments: str) -> None:
    command = [str(installed_programs() / program), *arguments]
    subprocess.run(command, check=True, capture_output=True)
