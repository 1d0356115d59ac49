"""An empty database of a test's own in the place of the shared one, of either kind."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dj_database_url
import psycopg
import psycopg.sql
from django.db import connections

from tests.programs.postgres import PostgresServer


def sqlite_in(folder: Path) -> dict[str, Any]:
    """Return the settings of an SQLite database that is not there yet."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / f"{secrets.token_hex(6)}.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
    }


def postgres_on(server: PostgresServer, *, template: str | None = None) -> dict[str, Any]:
    """Return the settings of a new database on a server, empty or a copy of another."""
    name = f"fresh_{secrets.token_hex(6)}"
    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        source = psycopg.sql.Identifier(template or "template1")
        command = psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(command.format(psycopg.sql.Identifier(name), source))
    return dict(dj_database_url.parse(server.url_of(name)))


@contextmanager
def database(settings: dict[str, Any]) -> Iterator[None]:
    """Let `connection` lead to this database, in this thread and in new ones."""
    shared_settings, shared = connections.settings["default"], connections["default"]
    shared.close()
    connections.settings["default"] = {
        **shared_settings,
        "CONN_MAX_AGE": 0,
        "OPTIONS": {},
        **settings,
    }
    connections["default"] = connections.create_connection("default")
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"], connections["default"] = shared_settings, shared
