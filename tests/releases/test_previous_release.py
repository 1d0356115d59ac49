"""What earlier releases stored is whole after migrating, and they can go on working meanwhile."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from evidence.store.models import Item, Refusal, Run
from lanes.plans.models import Lane, Plan
from tests.releases.released import RELEASES, Release, release_in, unpack_objects

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("empty_database")]


@pytest.fixture(params=RELEASES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def archive(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def release(archive: Path, objects_dir: Path) -> Release:
    unpack_objects(archive, objects_dir.parent)
    return release_in(archive)


def migrate() -> None:
    call_command("migrate", "--no-input", "--verbosity", "0")


def test_rows_of_a_release_are_whole_after_migrating(release: Release, client: Client) -> None:
    release.migrate_to()
    release.insert()
    before = release.stored_rows()
    assert before == release.tables

    migrate()

    assert release.stored_rows() == before
    expect_answers(client, release)


def test_release_goes_on_working_beside_a_newer_one(release: Release, client: Client) -> None:
    migrate()

    release.insert()

    assert release.stored_rows() == release.tables
    update_all_rows(release)
    assert release.stored_rows() == release.tables
    expect_answers(client, release)


def test_way_back_leaves_the_rows_of_a_release(release: Release) -> None:
    migrate()
    release.insert()

    release.migrate_back()

    assert release.stored_rows() == release.tables


def update_all_rows(release: Release) -> None:
    """Save each row as the release does: with all columns that it knows."""
    for label in release.tables:
        for instance in release.apps().get_model(label).objects.all():
            instance.save(force_update=True)


def expect_answers(client: Client, release: Release) -> None:
    """Ask every kind of page and endpoint about what the release stored."""
    connection.close()
    client.force_login(User.objects.get())
    plans = {"digest": Plan.objects.latest("pk").digest}
    transcript = Item.objects.filter(kind="transcript").latest("pk")
    asked = [
        reverse("plans"),
        reverse("plan", kwargs=plans),
        reverse("runs", kwargs=plans),
        reverse("quarantine", kwargs=plans),
        reverse("lane", kwargs={**plans, "lane": Lane.objects.latest("pk").name}),
        reverse("run", args=[Run.objects.latest("pk").pk]),
        reverse("run-turn", args=[transcript.run_id, 1]),
        reverse("item", args=[transcript.pk]),
        reverse("item-file", args=[transcript.pk]),
    ]
    assert {path: client.get(path).status_code for path in asked} == dict.fromkeys(asked, 200)
    # A whole segment may hold secrets: it takes a form of its own since.
    whole_segment = reverse("quarantine-file", args=[Refusal.objects.latest("pk").pk])
    assert client.get(whole_segment).status_code == 403
    token = {"Authorization": f"Bearer {release.token}"}
    told = [
        reverse("api-plan", kwargs=plans),
        reverse("api-conclusion", args=[Plan.objects.earliest("pk").digest]),
        reverse("api-run", args=[Run.objects.latest("pk").pk]),
        reverse("api-run-transcript", args=[transcript.run_id]),
    ]
    answers = {path: client.get(path, headers=token).status_code for path in told}
    assert answers == dict.fromkeys(told, 200)
