"""How much work a database does for a piece of code, counted instead of timed."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from evalhub.growth.rows import Rows

_STEPS_PER_CALL = 50
_ALIAS = re.compile(r'(?:FROM|JOIN|UPDATE) "(\w+)"(?: (\w\d+))?')
_SCANNED = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


def growing_tables() -> set[str]:
    """Return the tables of which there are more rows the longer a store is used."""
    return {table.name for table in Rows().tables}


@dataclass
class Work:
    """What was done: statements, and steps of SQLite's virtual machine where that ran them."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count what the block has the database do."""
    work = Work()
    driver = connection.connection

    def note() -> int:
        work.steps += _STEPS_PER_CALL
        return 0

    with CaptureQueriesContext(connection) as queries:
        if connection.vendor == "sqlite":
            driver.set_progress_handler(note, _STEPS_PER_CALL)
        try:
            yield work
        finally:
            if connection.vendor == "sqlite":
                driver.set_progress_handler(None, 0)
    work.statements = [query["sql"] for query in queries.captured_queries]


def whole_scans(statement: str) -> list[str]:
    """Return how a statement reads a growing table from one end to the other; empty if it does not."""
    if not statement.startswith(("SELECT", "UPDATE", "DELETE")):
        return []
    find = _sqlite_scans if connection.vendor == "sqlite" else _postgres_scans
    return [f"{scan}: {statement[:300]}" for scan in find(statement)]


def _sqlite_scans(statement: str) -> Iterator[str]:
    names = {alias or table: table for table, alias in _ALIAS.findall(statement)}
    partial = _partial_indexes()
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + statement.replace("%", "%%"), ())
        for *_, detail in cursor.fetchall():
            found = _SCANNED.match(detail)
            if found is None:
                continue
            table, index = names.get(found[1], found[1]), found[2]
            if table in growing_tables() and index not in partial:
                yield detail


def _partial_indexes() -> set[str]:
    return {
        index.name
        for table in Rows().tables
        for index in table.model._meta.indexes
        if index.condition is not None
    }


def _postgres_scans(statement: str) -> Iterator[str]:
    with connection.cursor() as cursor:
        # So few rows are read fastest without an index; what is asked is whether one would serve.
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("EXPLAIN (FORMAT JSON) " + statement.replace("%", "%%"), ())
        plan: Any = cursor.fetchone()
        cursor.execute("RESET enable_seqscan")
    [whole] = plan[0] if isinstance(plan[0], list) else json.loads(plan[0])
    partial = _partial_indexes()
    for node in _nodes(whole["Plan"]):
        kind, index = node["Node Type"], node.get("Index Name")
        table = node.get("Relation Name")
        if kind == "Seq Scan" and table in growing_tables():
            yield f"{kind} on {table}"
        if (
            "Index" in kind
            and "Index Cond" not in node
            and index not in partial
            and table in growing_tables()
        ):
            yield f"whole {kind} using {index}"


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)
