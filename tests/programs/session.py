"""A pytest plugin: with EVALHUB_TEST_DATABASE=postgres one PostgreSQL serves the whole session.

It keeps nothing, and ends with the session, even when pytest is killed. `tests/settings.py` chose
the folder of its socket.
"""

from pathlib import Path

import pytest
from django.conf import settings

from tests.programs.postgres import PostgresServer

SERVER = pytest.StashKey[PostgresServer]()


def _wanted_folder() -> Path | None:
    """Return the socket's folder that the settings name; None if they name another database."""
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"] == "django.db.backends.postgresql"
    return Path(str(database["HOST"])) if is_postgres else None


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the process that other test processes descend from."""
    folder = _wanted_folder()
    if folder is not None and not hasattr(config, "workerinput"):
        config.stash[SERVER] = PostgresServer(folder, cluster=folder)
        config.stash[SERVER].start()


def pytest_report_header() -> str:
    return f"database: {'PostgreSQL 18' if _wanted_folder() else 'SQLite'}"


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(SERVER, None)
    if server is not None:
        server.__exit__()
