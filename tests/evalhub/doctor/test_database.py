"""The database: away, not ours, not to be written, not durable; each told in a sentence."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from pytest_django import Settings

from evalhub.doctor import database
from evalhub.doctor.findings import Finding, Level
from evalhub.tasks.models import SweepRun
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, about, only, sentences, told
from tests.programs.evalhub import Evalhub
from tests.programs.postgres import PostgresServer

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="says what SQLite says")


def found() -> list[Finding]:
    return database.look(clock=timezone.now).findings


@pytest.fixture
def sqlite(settings: Settings, db: None) -> Path:
    """Name the tests' own database in the settings, as production does."""
    file = Path(connection.settings_dict["NAME"])
    settings.DATABASE_FILE = file
    return file


@on_sqlite
def test_sound_database_is_right_and_left_as_it_was(sqlite: Path) -> None:
    before = SweepRun.objects.count()

    text = sentences(found(), OK)

    assert "SQLite 3." in text
    assert "Its journal is WAL" in text
    assert "The database has the tables of this release." in text
    assert "A row can be written." in text
    assert SweepRun.objects.count() == before


@on_sqlite
def test_database_that_is_not_there_is_told_and_not_made(sqlite: Path, settings: Settings) -> None:
    settings.DATABASE_FILE = sqlite.with_name("other.sqlite3")

    finding = only(found(), WRONG)

    assert finding.sentence == f"There is no database at {settings.DATABASE_FILE} yet."
    assert "`manage.py migrate`" in finding.fix
    assert not settings.DATABASE_FILE.exists()


@on_sqlite
def test_tables_of_an_older_release_are_told(sqlite: Path) -> None:
    rows = MigrationRecorder(connection).migration_qs
    rows.filter(app="evalhub_tasks", name="0002_note_the_installation").delete()

    (finding,) = [one for one in found() if one.level is WRONG]

    assert finding.sentence == (
        "The database lacks 1 of this release's migrations: evalhub_tasks.0002_note_the_installation."
    )
    assert finding.fix == "Run `manage.py migrate`."


@on_sqlite
def test_database_that_cannot_be_written_is_told(sqlite: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = 1")
        try:
            (finding,) = [one for one in found() if one.level is WRONG]
        finally:
            cursor.execute("PRAGMA query_only = 0")

    assert finding.sentence == ("A row could not be written: attempt to write a readonly database.")


@on_sqlite
@pytest.mark.parametrize(("kind", "level"), [("nfs4", WRONG), ("tmpfs", WARNING), ("ext4", OK)])
def test_file_system_that_keeps_no_sqlite_is_told(kind: str, level: Level, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"somewhere / {kind} rw 0 0\n")

    findings = list(database.place_of(tmp_path / "evalhub.sqlite3", mounts=mounts))

    assert [finding.level for finding in findings] == ([] if level is OK else [level])
    assert all(f"({kind})" in finding.sentence for finding in findings)


@pytest.mark.slow
def test_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    evalhub = Evalhub(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "evalhub.sqlite3").write_text("This is no database, but a text." * 100)

    code, findings = told(evalhub.environment)

    assert code == 1
    assert "file is not a database." in sentences(about("database", findings), WRONG)
    # What needs no database was looked at all the same.
    assert about("objects", findings)[0].level is OK
    assert sentences(about("everything else", findings), WARNING)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres"), tcp=True) as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("ALTER USER postgres PASSWORD 'right'")
        rules = server.cluster / "data" / "pg_hba.conf"
        rules.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(scope="module")
def migrated(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a database with all tables."""
    url = postgres.url.replace("postgres@", "postgres:right@")
    folder = tmp_path_factory.mktemp("evalhub")
    Evalhub(folder, {"DATABASE_URL": url}).make_tables()
    return url


def of_database(folder: Path, url: str, **variables: str) -> list[Finding]:
    """Return what the doctor finds about a PostgreSQL."""
    _, findings = told(Evalhub(folder, {"DATABASE_URL": url, **variables}).environment)
    return [f for f in findings if f.subject in {"database", "migrations", "clock"}]


@pytest.mark.slow
def test_postgresql_without_durability_is_told(tmp_path: Path, migrated: str) -> None:
    findings = of_database(tmp_path, migrated)

    wrong = sentences(findings, WRONG)
    assert "PostgreSQL runs with fsync = off: a power cut takes rows" in wrong
    assert "PostgreSQL runs with synchronous_commit = off: a crash takes rows" in wrong
    right = sentences(findings, OK)
    assert "PostgreSQL 18" in right
    assert "The database has the tables of this release." in right
    assert "One web server (32 threads) and one worker (4) keep up to 38 connections" in right
    assert "PostgreSQL's clock and this machine's agree." in right


@pytest.mark.slow
def test_threads_beyond_the_connections_are_told(tmp_path: Path, migrated: str) -> None:
    findings = of_database(tmp_path, migrated, EVALHUB_WEB_THREADS="120")

    (finding,) = [f for f in findings if "connections" in f.sentence]
    assert finding.level is WRONG
    assert finding.sentence == (
        "One web server (120 threads) and one worker (4) keep up to 126 connections; PostgreSQL has 97."
    )
    assert finding.fix == "Raise max_connections above 126, or lower EVALHUB_WEB_THREADS."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("right", "s3cret-but-wrong"), "password authentication failed for user"),
        (("/evalhub", "/nowhere"), 'database "nowhere" does not exist'),
        (("127.0.0.1:", "127.0.0.1:9/x?"), "Connection refused"),
    ],
)
def test_postgresql_that_lets_nobody_in_is_told(
    tmp_path: Path, migrated: str, change: tuple[str, str], said: str
) -> None:
    url = migrated.replace(*change)
    if "?" in url:
        url = url.partition("?")[0]

    finding = only(of_database(tmp_path, url), WRONG)

    assert finding.sentence.startswith("PostgreSQL cannot be used: ")
    assert said in finding.sentence
    assert "DATABASE_URL" in finding.fix
    assert "s3cret" not in str(finding)


@pytest.mark.slow
def test_postgresql_that_only_reads_is_told(
    tmp_path: Path, postgres: PostgresServer, migrated: str
) -> None:
    with psycopg.connect(migrated, autocommit=True) as admin:
        admin.execute("ALTER DATABASE evalhub SET default_transaction_read_only = on")
    try:
        wrong = sentences(of_database(tmp_path, migrated), WRONG)
    finally:
        with psycopg.connect(migrated, autocommit=True) as admin:
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER DATABASE evalhub RESET default_transaction_read_only")

    assert "A row could not be written: cannot execute INSERT in a read-only transaction." in wrong


@pytest.mark.slow
def test_postgresql_without_tables_is_told(tmp_path: Path, postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url.replace("postgres@", "postgres:right@")) as admin:
        admin.autocommit = True
        admin.execute("CREATE DATABASE empty")
    url = postgres.url_of("empty").replace("postgres@", "postgres:right@")

    (finding,) = [f for f in of_database(tmp_path, url) if f.subject == "migrations"]

    assert finding.level is WRONG
    assert finding.sentence.endswith(" and others.")
    assert finding.fix == "Run `manage.py migrate`."


@pytest.mark.slow
def test_other_commands_name_every_broken_setting(tmp_path: Path) -> None:
    environment = {
        **Evalhub(tmp_path).environment,
        "EVALHUB_WEB_THREADS": "many",
        "DATABASE_URL": "mysql://evalhub:s3cret@db/evalhub",
        "EVALHUB_GITHUB_TOKEN_FILE": str(tmp_path / "none"),
    }

    code, findings = told(environment)
    evalhub = Evalhub(tmp_path, environment)
    with pytest.raises(RuntimeError) as refused:
        evalhub.manage("migrate")

    assert code == 1
    assert {finding.level for finding in findings} == {WRONG}
    for sentence in (
        "EVALHUB_WEB_THREADS is 'many'; it takes a whole number from 1 to 2147483647.",
        "DATABASE_URL takes postgresql://user:password@host:port/name",
        f"EVALHUB_GITHUB_TOKEN_FILE is '{tmp_path}/none', which cannot be read",
    ):
        assert sentence in sentences(findings, WRONG)
        assert sentence in str(refused.value)
    assert "s3cret" not in str(findings) + str(refused.value)
    assert "Traceback" not in str(refused.value)


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no clock of its own")
def test_clock_that_differs_is_told() -> None:
    late = list(database.clocks(lambda: timezone.now() - timedelta(seconds=40)))

    assert "PostgreSQL's clock is 40 s ahead of this machine's." in only(late, WARNING).sentence
