"""Installations: a database and an object store of each kind, empty, one after the other."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker, Settings

from evalhub.tasks.app import app
from tests.databases import database, postgres_on, sqlite_in
from tests.programs.postgres import PostgresServer
from tests.programs.s3 import S3Server

Installed = Callable[["Kind"], AbstractContextManager[None]]


class Kind(NamedTuple):
    """Where an installation keeps its rows and its objects; whether it has tables from the start."""

    database: str
    objects: str
    has_tables: bool = False

    def __str__(self) -> str:
        return f"{self.database}-{self.objects}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_tables(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Path:
    """Return an SQLite database with all tables, to be copied: migrating takes a while."""
    settings = sqlite_in(tmp_path_factory.mktemp("tables"))
    with django_db_blocker.unblock(), database(settings):
        call_command("migrate", "--no-input", "--verbosity", "0")
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(settings["NAME"])


@pytest.fixture(scope="session")
def postgres_tables(postgres: PostgresServer, django_db_blocker: DjangoDbBlocker) -> str:
    """Return the name of a PostgreSQL database with all tables, to be copied."""
    settings = postgres_on(postgres)
    with django_db_blocker.unblock(), database(settings):
        call_command("migrate", "--no-input", "--verbosity", "0")
    return str(settings["NAME"])


@pytest.fixture
def installed(
    request: pytest.FixtureRequest,
    settings: Settings,
    tmp_path: Path,
    django_db_blocker: DjangoDbBlocker,
) -> Installed:
    """Return what makes a new, empty installation of a kind the one that is worked on."""

    @contextmanager
    def install(kind: Kind) -> Iterator[None]:
        folder = tmp_path / secrets.token_hex(4)
        folder.mkdir()
        settings.DATA_DIR = folder
        settings.OBJECTS_DIR = folder / "objects"
        settings.S3_BUCKET = ""
        if kind.objects == "s3":
            _name_bucket(settings, request.getfixturevalue("s3"))
        # Tasks that an upload asks for run at once.
        app.loader.import_default_modules()
        if kind.database == "sqlite":
            rows = sqlite_in(folder)
            if kind.has_tables:
                shutil.copy(request.getfixturevalue("sqlite_tables"), rows["NAME"])
        else:
            server: PostgresServer = request.getfixturevalue("postgres")
            settings.POSTGRES_BIN = str(server.programs)
            template = request.getfixturevalue("postgres_tables") if kind.has_tables else None
            rows = postgres_on(server, template=template)
        with django_db_blocker.unblock(), database(rows):
            yield

    return install


def _name_bucket(settings: Settings, server: S3Server) -> None:
    place = server.place
    client = boto3.client(
        "s3",
        endpoint_url=place.endpoint_url,
        region_name=place.region,
        aws_access_key_id=place.access_key_id,
        aws_secret_access_key=place.secret_access_key,
    )
    settings.S3_BUCKET = f"evidence-{secrets.token_hex(4)}"
    client.create_bucket(Bucket=settings.S3_BUCKET)
    settings.S3_ENDPOINT_URL, settings.S3_REGION = place.endpoint_url, place.region
    settings.S3_ACCESS_KEY_ID = place.access_key_id
    settings.S3_SECRET_ACCESS_KEY = place.secret_access_key
