"""Can this process do its work? If not, the answer says why, and nothing that strangers may not know."""

from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from evalhub.web import database

pytestmark = pytest.mark.django_db


def answer(client: Client) -> tuple[int, str]:
    response = client.get("/readyz")
    return response.status_code, response.content.decode()


def test_process_with_everything_is_ready(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    answer(client)

    with django_assert_max_num_queries(4):
        assert answer(client) == (200, "ready\n")


def test_new_release_before_its_migrations_is_not_ready(client: Client) -> None:
    rows = MigrationRecorder(connection).migration_qs
    rows.filter(app="gates_checks").exclude(name="0001_initial").delete()
    rows.filter(app="lanes_plans", name="0003_plan_behind_since").delete()

    status, text = answer(client)

    assert status == 503
    assert text == (
        f"The database lacks {len(database.unapplied_migrations())} of this release's migrations,"
        " gates_checks.0002_check_undelivered_since first: run `manage.py migrate`.\n"
    )


def test_previous_release_on_a_newer_schema_is_ready(client: Client) -> None:
    MigrationRecorder(connection).record_applied("lanes_plans", "9999_of_a_later_release")

    assert answer(client)[0] == 200


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_folder_of_objects_that_cannot_be_used_is_told(
    client: Client, settings: Settings, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "objects"
    file.write_text("")
    settings.OBJECTS_DIR = file if kind == "file" else file / "deeper"

    status, text = answer(client)

    assert status == 503
    assert text == "The place of the objects cannot be used; `manage.py doctor` says why.\n"
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("endpoint", "status"), [("http://s3.example:8333", 200), ("s3:8333", 503)]
)
def test_bucket_is_ready_where_its_address_is_one(
    client: Client, settings: Settings, endpoint: str, status: int
) -> None:
    settings.S3_BUCKET, settings.S3_ENDPOINT_URL = "evidence", endpoint
    settings.S3_ACCESS_KEY_ID = settings.S3_SECRET_ACCESS_KEY = "key"

    assert answer(client)[0] == status
