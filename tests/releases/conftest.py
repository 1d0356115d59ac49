"""A database without tables in the place of the shared one, of each kind: no matter what the others use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.databases import database, postgres_on, sqlite_in
from tests.programs.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Let `connection` lead to an empty database."""
    settings = (
        sqlite_in(tmp_path)
        if request.param == "sqlite"
        else postgres_on(request.getfixturevalue("postgres"))
    )
    with django_db_blocker.unblock(), database(settings):
        yield
