"""The database's part of a backup: one moment of it, while others go on writing."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.db import connection, transaction

from evalhub.backup.manifest import BackupError, sync
from evalhub.supervisor.children import kill_group, start_child
from evalhub.supervisor.programs import Program

MIGRATIONS = "django_migrations"


class Dumped(NamedTuple):
    """What the dump holds: rows by table, and the migrations that made the tables."""

    rows: dict[str, int]
    migrations: list[tuple[str, str]]


def kind() -> str:
    """Return `sqlite` or `postgresql`, as a manifest names them."""
    return connection.vendor


def dump(target: Path) -> Dumped:
    """Write the database as it is at one moment to `target`; writers do not wait for it.

    Raises:
        BackupError: if it cannot be read, or the file cannot be written.
    """
    if MIGRATIONS not in tables():
        raise BackupError(
            "The database holds no evalhub: name the one that does in EVALHUB_DATA or DATABASE_URL."
        )
    dumped = _dump_sqlite(target) if kind() == "sqlite" else _dump_postgres(target)
    sync(target)
    return dumped


def tables() -> list[str]:
    """Return the names of the tables that are there."""
    with connection.cursor() as cursor:
        return sorted(connection.introspection.table_names(cursor))


def counted_rows() -> dict[str, int]:
    """Count the rows of each table."""
    with connection.cursor() as cursor:
        return {table: _count(cursor, table) for table in tables()}


def restore(source: Path) -> None:
    """Fill the empty database from a dump: all of it, or nothing.

    Raises:
        BackupError: if that fails.
    """
    if kind() == "sqlite":
        _restore_sqlite(source)
    else:
        _restore_postgres(source)


def expect_sound_file(path: Path) -> None:
    """Return if a SQLite database is whole in itself, whatever its digest says of its bytes.

    Raises:
        BackupError: otherwise.
    """
    # Immutable: nothing is written beside it, also where it lies on a medium that is read only.
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise BackupError(
            f"{path} is damaged, though it is what was backed up; SQLite says: {verdict}. Restore"
            " another backup."
        )


def _dump_sqlite(target: Path) -> Dumped:
    connection.ensure_connection()
    try:
        with closing(sqlite3.connect(target)) as copy:
            # In one step, which reads one moment of the write-ahead log.
            cast(sqlite3.Connection, connection.connection).backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise BackupError(f"The database is damaged, SQLite says: {verdict}")
            names = copy.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            rows = {name: _count(copy.cursor(), name) for (name,) in sorted(names)}
            return Dumped(rows, _migrations(copy.cursor()))
    except sqlite3.Error as error:
        raise BackupError(f"The database could not be copied to {target}: {error}.") from error


def _restore_sqlite(source: Path) -> None:
    target = Path(connection.settings_dict["NAME"])
    connection.close()
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        sync(part)
        # Of the empty database that was here: they would be taken for this one's.
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        part.replace(target)
        sync(target.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BackupError(f"{target} could not be written: {error.strerror}.") from error


def _dump_postgres(target: Path) -> Dumped:
    with _snapshot() as (cursor, snapshot):
        rows = {table: _count(cursor, table) for table in tables()}
        migrations = _migrations(cursor)
        _run("pg_dump", "--format=custom", f"--snapshot={snapshot}", f"--file={target}")
    return Dumped(rows, migrations)


@contextmanager
def _snapshot() -> Iterator[tuple[Any, str]]:
    """Hold one moment of the database, for this transaction and for `pg_dump`."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cast(tuple[str], cursor.fetchone())
        yield cursor, snapshot


def _restore_postgres(source: Path) -> None:
    _run("pg_restore", "--exit-on-error", "--single-transaction", str(source))
    with connection.cursor() as cursor:
        # Without it the first questions are answered by the slowest ways.
        cursor.execute("ANALYZE")


def _run(name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs on our database.

    Raises:
        BackupError: if it is not there, or fails, with the last line that it wrote.
    """
    executable = shutil.which(name, path=settings.POSTGRES_BIN)
    if executable is None:
        raise BackupError(
            f"There is no {name} here: install PostgreSQL's client programs, of the server's version "
            "or newer, and name their folder in EVALHUB_POSTGRES_BIN if it is not on the PATH."
        )
    connection.ensure_connection()
    info = connection.connection.info
    command = [executable, "--no-owner", "--no-privileges", f"--dbname={info.dsn}", *arguments]
    # Not on the command line, which others on this machine can read.
    environment = {**os.environ, "PGPASSWORD": info.password, "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile() as log:
        process = start_child(Program(name, command), environment=environment, log=log)
        try:
            code = process.wait()
        finally:
            kill_group(process)
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
    if code != 0:
        raise BackupError(f"{name} ended with code {code}: {said[-1] if said else 'no word'}")


def _count(cursor: Any, table: str) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {connection.ops.quote_name(table)}")  # noqa: S608
    (count,) = cursor.fetchone()
    return int(count)


def _migrations(cursor: Any) -> list[tuple[str, str]]:
    cursor.execute(f"SELECT app, name FROM {MIGRATIONS} ORDER BY id")  # noqa: S608
    return [(app, name) for app, name in cursor.fetchall()]
