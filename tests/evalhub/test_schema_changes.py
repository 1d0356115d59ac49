"""Indexes on tables in use: built and removed beside writers where the database can."""

from collections.abc import Callable

import pytest
from django.db import NotSupportedError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.test.utils import CaptureQueriesContext

from evalhub.schema_changes import AddIndexConcurrently, RemoveIndexConcurrently

pytestmark = pytest.mark.django_db(transaction=True)

APP, TABLE = "evidence_store", "evidence_store_score"
ADDED = AddIndexConcurrently("score", models.Index(name="score_by_value", fields=["value"]))


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, TABLE)
    return {name for name, each in found.items() if each["index"]}


def migrate(operation: Operation, *, back: bool = False) -> list[str]:
    """Run one operation as a migration with `atomic = False` does; return its statements."""
    before = MigrationLoader(None).project_state()
    if isinstance(operation, RemoveIndexConcurrently):
        ADDED.state_forwards(APP, before)
    after = before.clone()
    operation.state_forwards(APP, after)
    with (
        CaptureQueriesContext(connection) as asked,
        connection.schema_editor(atomic=False) as editor,
    ):
        if back:
            operation.database_backwards(APP, editor, after, before)
        else:
            operation.database_forwards(APP, editor, before, after)
    return [query["sql"] for query in asked]


def test_index_is_added_and_removed_beside_writers() -> None:
    removed = RemoveIndexConcurrently("score", "score_by_value")
    steps: list[tuple[Callable[[], list[str]], bool]] = [
        (lambda: migrate(ADDED), True),
        (lambda: migrate(ADDED, back=True), False),
        (lambda: migrate(removed, back=True), True),
        (lambda: migrate(removed), False),
    ]

    for step, is_there in steps:
        statements = [sql for sql in step() if "score_by_value" in sql]
        assert ("score_by_value" in indexes()) is is_there
        assert statements
        if connection.vendor == "postgresql":
            assert all("CONCURRENTLY" in sql for sql in statements)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite builds an index at once")
def test_interrupted_build_is_begun_anew() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX score_by_value ON {TABLE} (id)")

    migrate(ADDED)

    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, TABLE)["score_by_value"]
    assert found["columns"] == ["value"]
    migrate(ADDED, back=True)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite builds an index at once")
def test_open_transaction_is_refused_where_it_would_lock() -> None:
    with transaction.atomic(), pytest.raises(NotSupportedError, match="atomic = False"):
        migrate(ADDED)
