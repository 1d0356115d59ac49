"""The database: does it answer, is it ours, will it keep what it takes?"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db import Error, connection, transaction

from evalhub.doctor.findings import Finding, Level, ok, said, warning, wrong
from evalhub.doctor.mounts import MOUNTS, REMOTE, VOLATILE, file_system_of
from evalhub.tasks.models import SweepRun
from evalhub.web import database

_SUBJECT = "database"
_WAIT_FIX = "See which process holds the database for so long; a backup or a migration may."
_CLOCKS_MAY_DIFFER_SECONDS = 5.0
# One for beat or a command, one for whoever looks.
_CONNECTIONS_BESIDE = 2


class Looked(NamedTuple):
    """What was found, and whether others can ask this database something."""

    findings: list[Finding]
    is_usable: bool


def look(*, clock: Callable[[], datetime]) -> Looked:
    """Look at the database."""
    reached = list(_reached())
    if _is_wrong(reached):
        return Looked(reached, is_usable=False)
    file = settings.DATABASE_FILE
    kept = list(_postgresql(clock) if file is None else _sqlite(file))
    tables = list(_migrations())
    if _is_wrong(tables):
        return Looked([*reached, *kept, *tables], is_usable=False)
    return Looked([*reached, *kept, *tables, *_writable(at=clock())], is_usable=True)


def _is_wrong(found: list[Finding]) -> bool:
    return any(finding.level is Level.WRONG for finding in found)


def _reached() -> Iterator[Finding]:
    file = settings.DATABASE_FILE
    if file is not None and not file.exists():
        # Asking would make an empty one.
        yield wrong(
            _SUBJECT,
            f"There is no database at {file} yet.",
            fix="Run `manage.py migrate`, or `manage.py up`, which does; if evalhub runs on another"
            " data directory, name that in EVALHUB_DATA.",
        )
        return
    begun = time.perf_counter()
    error = database.failure()
    if error is None:
        took = (time.perf_counter() - begun) * 1000
        yield ok(_SUBJECT, f"{_version()} answers within {took:.0f} ms.")
    elif file is not None:
        yield wrong(
            _SUBJECT,
            f"SQLite cannot use {file}: {said(error)}",
            fix="Whoever runs evalhub must be able to read and write this file and its folder.",
        )
    else:
        yield wrong(
            _SUBJECT,
            f"PostgreSQL cannot be used: {said(error)}",
            fix="Check host, port, name, user and password in DATABASE_URL (or DATABASE_URL_FILE), and"
            " that the server takes connections from this machine.",
        )


def _version() -> str:
    if settings.DATABASE_FILE is not None:
        return f"SQLite {sqlite3.sqlite_version}"
    return f"PostgreSQL {_shown('server_version')}"


def _sqlite(file: Path) -> Iterator[Finding]:
    journal = _first("PRAGMA journal_mode")
    if journal == "wal":
        yield ok(_SUBJECT, "Its journal is WAL: readers and the writer do not wait for each other.")
    else:
        yield wrong(
            _SUBJECT,
            f"Its journal is {journal!r}, not 'wal', so readers and writers lock each other out.",
            fix="Put the data directory on a local disk: WAL needs memory that processes share.",
        )
    yield from place_of(file)


def place_of(file: Path, *, mounts: Path = MOUNTS) -> Iterator[Finding]:
    """See whether a file of SQLite's may lie where it lies."""
    kind = file_system_of(file, mounts=mounts)
    if kind in REMOTE:
        yield wrong(
            _SUBJECT,
            f"{file} lies on a network file system ({kind}), where SQLite loses or damages data.",
            fix="Put EVALHUB_DATA on a local disk, or use PostgreSQL (DATABASE_URL).",
        )
    elif kind in VOLATILE:
        yield warning(
            _SUBJECT,
            f"{file} lies on a file system ({kind}) that is gone with the machine or container.",
            fix="Put EVALHUB_DATA on a volume or a disk that stays.",
        )


def _postgresql(clock: Callable[[], datetime]) -> Iterator[Finding]:
    for setting, means in (("fsync", "a power cut"), ("synchronous_commit", "a crash")):
        if _shown(setting) == "off":
            yield wrong(
                _SUBJECT,
                f"PostgreSQL runs with {setting} = off: {means} takes rows that lanes have a receipt for.",
                fix=f"Set {setting} = on in postgresql.conf.",
            )
    if _shown("server_encoding") != "UTF8":
        yield wrong(
            _SUBJECT,
            f"Its encoding is {_shown('server_encoding')}, which cannot hold every transcript.",
            fix="Create the database anew with ENCODING 'UTF8'.",
        )
    yield from _connections()
    yield from clocks(clock)


def _connections() -> Iterator[Finding]:
    most = int(_shown("max_connections")) - int(_shown("superuser_reserved_connections"))
    # Each thread of the web server and of the worker keeps one.
    needed = settings.WEB_THREADS + settings.WORKER_CONCURRENCY + _CONNECTIONS_BESIDE
    sentence = (
        f"One web server ({settings.WEB_THREADS} threads) and one worker"
        f" ({settings.WORKER_CONCURRENCY}) keep up to {needed} connections; PostgreSQL has {most}."
    )
    if needed > most:
        yield wrong(
            _SUBJECT,
            sentence,
            fix=f"Raise max_connections above {needed}, or lower EVALHUB_WEB_THREADS.",
        )
    else:
        yield ok(_SUBJECT, sentence)


def clocks(clock: Callable[[], datetime]) -> Iterator[Finding]:
    """Compare the database's clock with this machine's."""
    theirs = datetime.fromtimestamp(
        float(_first("SELECT extract(epoch FROM clock_timestamp())")), UTC
    )
    ahead = (theirs - clock()).total_seconds()
    if abs(ahead) > _CLOCKS_MAY_DIFFER_SECONDS:
        yield warning(
            "clock",
            f"PostgreSQL's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this"
            " machine's.",
            fix="Let both machines keep time by NTP.",
        )
    else:
        yield ok("clock", "PostgreSQL's clock and this machine's agree.")


def _migrations() -> Iterator[Finding]:
    missing = database.unapplied_migrations()
    if not missing:
        yield ok("migrations", "The database has the tables of this release.")
        return
    listed = ", ".join(missing[:3]) + (" and others" if len(missing) > 3 else "")
    yield wrong(
        "migrations",
        f"The database lacks {len(missing)} of this release's migrations: {listed}.",
        fix="Run `manage.py migrate`.",
    )


def _writable(*, at: datetime) -> Iterator[Finding]:
    """Write a row and take it back."""
    try:
        with transaction.atomic():
            SweepRun.objects.create(name="doctor", started_at=at, error="")
            transaction.set_rollback(True)
    except Error as error:
        refusal = said(error)
        if "locked" in refusal:
            yield warning(_SUBJECT, f"A row could not be written in time: {refusal}", fix=_WAIT_FIX)
            return
        yield wrong(
            _SUBJECT,
            f"A row could not be written: {refusal}",
            fix="Let evalhub's user write: to the file and its folder, or to the primary server.",
        )
    else:
        yield ok(_SUBJECT, "A row can be written.")


def _first(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        (value,) = cursor.fetchone()
    return value


def _shown(setting: str) -> str:
    return str(_first(f"SHOW {setting}"))  # the names above, never anybody's text
