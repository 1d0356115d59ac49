"""The bare work of intake, to hold evalhub's against: hash, fsync, unzip, validate, plain inserts.

No HTTP, no framework, no check of what is safe or planned: what nobody who promises durable and
readable evidence can leave out.
"""

import hashlib
import io
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from evalhub.protocol.records import Result, Turn

_TABLES = (
    "CREATE TABLE segment (sha256 text, size bigint)",
    "CREATE TABLE item (segment text, path text, sha256 text, size bigint, at bigint, lines bigint)",
    "CREATE TABLE run (folder text, outcome text, started_at text, duration_ms bigint)",
    "CREATE TABLE score (folder text, rubric text, value double precision)",
)


class _Rows(NamedTuple):
    items: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    scores: list[tuple[Any, ...]]


class BareStore:
    """A folder and a database that take segments with as little work as there can be."""

    def __init__(self, folder: Path, *, postgres: str | None) -> None:
        self._folder = folder / "objects"
        self._folder.mkdir(parents=True)
        self._mark = "%s" if postgres else "?"
        self._database: Any
        if postgres:
            self._database = psycopg.connect(postgres)
        else:
            self._database = sqlite3.connect(folder / "bare.sqlite3")
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
        for table in _TABLES:
            self._database.execute(table)
        self._database.commit()

    def close(self) -> None:
        self._database.close()

    def take(self, data: bytes) -> None:
        """Have a segment's bytes durable, and then its rows."""
        sha256 = hashlib.sha256(data).hexdigest()
        with (self._folder / sha256).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync(self._folder)
        rows = _Rows([], [], [])
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[1:]:
                _read(member, archive.read(member), sha256, rows)
        cursor = self._database.cursor()
        self._insert(cursor, "segment", [(sha256, len(data))])
        for table in ("item", "run", "score"):
            self._insert(cursor, table, getattr(rows, f"{table}s"))
        self._database.commit()

    def _insert(self, cursor: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join([self._mark] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608


def _read(member: zipfile.ZipInfo, data: bytes, segment: str, rows: _Rows) -> None:
    lines = None
    folder, _, leaf = member.filename.rpartition("/")
    if leaf == "result.json":
        result = Result.model_validate_json(data)
        started_at = result.started_at and result.started_at.isoformat()
        rows.runs.append((folder, result.outcome, started_at, result.duration_ms))
        rows.scores.extend((folder, rubric, value) for rubric, value in result.scores.items())
    else:
        lines = sum(1 for _ in _turns(data))
    sha256 = hashlib.sha256(data).hexdigest()
    rows.items.append((segment, member.filename, sha256, len(data), member.header_offset, lines))


def _turns(data: bytes) -> Iterator[Turn]:
    for line in data.splitlines():
        yield Turn.model_validate_json(line)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
