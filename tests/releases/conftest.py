"""A database of a test's own, which has no tables yet, in the place of the shared one."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker


@pytest.fixture
def empty_database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let `connection` lead to an empty database of the kind that the tests run on."""
    settings = connections.settings["default"]
    shared = settings["NAME"]
    name = f"released_{secrets.token_hex(6)}"
    is_file = connection.vendor == "sqlite"
    with django_db_blocker.unblock():
        connection.close()
        if not is_file:
            with connection._nodb_cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {name}")
        _lead_to(str(tmp_path / name) if is_file else name)
        yield
        connection.close()
        _lead_to(shared)
        if not is_file:
            with connection._nodb_cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _lead_to(name: str) -> None:
    connection.settings_dict["NAME"] = name
