"""How much work a database does for a piece of code, counted instead of timed."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from evalhub.growth.rows import Rows

_STEPS_PER_CALL = 50
_NAMED = re.compile(r'(?:FROM|JOIN|UPDATE) "(\w+)"(?: (\w\d+))?')
_SCANNED = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")
_READS = ("SELECT", "UPDATE", "DELETE")


@dataclass
class Work:
    """What was done: statements, and what they cost where they ran."""

    statements: list[str] = field(default_factory=list)
    cost: int = 0
    """Steps of SQLite's virtual machine, or rows that PostgreSQL looked at."""
    scans: list[str] = field(default_factory=list)
    """How SQLite read a growing table from one end to the other; its plans know no sizes."""


@contextmanager
def counted() -> Iterator[Work]:
    """Count what the block has the database do."""
    work = Work()
    with CaptureQueriesContext(connection) as queries, _steps_into(work):
        yield work
    work.statements = [query["sql"] for query in queries.captured_queries]
    for statement in work.statements:
        if not statement.startswith(_READS):
            continue
        if connection.vendor == "sqlite":
            work.scans += _scans(statement)
        else:
            work.cost += _rows_looked_at(statement)


@contextmanager
def _steps_into(work: Work) -> Iterator[None]:
    if connection.vendor != "sqlite":
        yield
        return

    def note() -> int:
        work.cost += _STEPS_PER_CALL
        return 0

    connection.connection.set_progress_handler(note, _STEPS_PER_CALL)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 0)


def _scans(statement: str) -> Iterator[str]:
    names = {alias or table: table for table, alias in _NAMED.findall(statement)}
    growing = {table.name for table in Rows().tables}
    partial = {
        index.name
        for table in Rows().tables
        for index in table.model._meta.indexes
        if index.condition is not None
    }
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + statement.replace("%", "%%"), ())
        for *_, detail in cursor.fetchall():
            found = _SCANNED.match(detail)
            if found and names.get(found[1], found[1]) in growing and found[2] not in partial:
                yield f"{detail}: {statement[:300]}"


def _rows_looked_at(statement: str) -> int:
    """Run a statement once more, undo what it did, and return how many rows its plan touched."""
    with transaction.atomic(), connection.cursor() as cursor:
        # As with tables so large that reading one whole is the worst that there is.
        for way in ("seqscan", "mergejoin", "hashjoin"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.replace("%", "%%")
        cursor.execute(explained, ())
        answer: Any = cursor.fetchone()
        transaction.set_rollback(True)
    [whole] = answer[0] if isinstance(answer[0], list) else json.loads(answer[0])
    return round(sum(_rows_of(node) for node in _nodes(whole["Plan"])))


def _rows_of(node: dict[str, Any]) -> float:
    if "Relation Name" not in node or node["Actual Loops"] == 0:
        return 0
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    rows: float = node["Actual Rows"] + sum(node.get(name, 0) for name in removed)
    return rows * float(node["Actual Loops"])


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)
