"""What is written down when the object store fails, and the probe that looks whether it works."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from evidence.store import queries
from evidence.store.models import Segment, StorageFault, StorageOperation
from evidence.store.operations import faults, receipts, uploads
from evidence.store.storage import StorageUnavailableError, object_store, probe
from lanes.projects.models import Role
from tests.evidence.factories import content_digest, make_run, make_segment
from tests.lanes.factories import NOW, make_attempt, make_lane_token, make_user


def fail(sentence: str, *, cause: str = "connection refused") -> None:
    with faults.noted(StorageOperation.READ, clock=lambda: NOW):
        raise StorageUnavailableError(sentence) from OSError(cause)


@pytest.mark.django_db
def test_fault_is_noted_with_what_the_store_said_and_goes_on() -> None:
    with pytest.raises(StorageUnavailableError):
        fail("The object store cannot be reached.")

    (fault,) = queries.storage_faults_since(NOW)
    assert fault.operation == StorageOperation.READ
    assert fault.sentence == "The object store cannot be reached. (connection refused)"


@pytest.mark.django_db(transaction=True)
def test_fault_is_kept_though_the_work_rolled_back() -> None:
    @faults.noted(StorageOperation.RECEIVE, clock=lambda: NOW)
    def work() -> None:
        with transaction.atomic():
            StorageFault.objects.create(at=NOW, operation="", sentence="rolled back")
            raise StorageUnavailableError("Away.")

    with pytest.raises(StorageUnavailableError):
        work()

    assert [fault.sentence for fault in StorageFault.objects.all()] == ["Away."]


@pytest.mark.django_db
def test_only_the_newest_faults_are_kept() -> None:
    many = [
        StorageFault(at=NOW, operation="READ", sentence=f"{i}") for i in range(faults.MOST_KEPT)
    ]
    StorageFault.objects.bulk_create(many)

    for sentence in ("next", "last"):
        with pytest.raises(StorageUnavailableError):
            fail(sentence * 500)

    kept = list(queries.storage_faults_since(NOW))
    assert len(kept) == faults.MOST_KEPT
    assert kept[0].sentence == ("last" * 500)[:500]
    assert kept[-1].sentence == "2"


def test_probe_leaves_nothing_behind() -> None:
    probe()

    assert list(object_store().keys()) == []


def test_probe_says_where_and_what(settings: Settings, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    settings.OBJECTS_DIR = in_the_way

    with pytest.raises(StorageUnavailableError) as refused:
        probe()

    assert str(in_the_way) in refused.value.detail
    assert "Not a directory" in refused.value.detail or "File exists" in refused.value.detail


def put_in_the_way(objects_dir: Path) -> None:
    """Leave a file where the store's folder was: nothing can be read or written below it."""
    shutil.rmtree(objects_dir, ignore_errors=True)
    objects_dir.write_text("no folder")


def put_segment(client: Client) -> Any:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"started\n"})
    return client.put(
        reverse("api-segment", args=[attempt.key, 1]),
        data,
        content_type="application/zip",
        headers={
            "Authorization": f"Bearer {make_lane_token(attempt)}",
            "Content-Digest": content_digest(data),
        },
    )


@pytest.mark.django_db
def test_upload_without_a_store_is_told_when_to_come_back(
    client: Client, objects_dir: Path
) -> None:
    put_in_the_way(objects_dir)

    response = put_segment(client)

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert response.json()["code"] == "storage-unavailable"
    assert not Segment.objects.exists()
    assert [fault.operation for fault in StorageFault.objects.all()] == [StorageOperation.RECEIVE]


@pytest.mark.django_db
def test_uploads_beyond_the_bound_are_told_to_come_back(client: Client) -> None:
    with ExitStack() as taken:
        for _ in range(uploads.MOST_AT_ONCE):
            taken.enter_context(uploads.place_for_upload())
        refused = put_segment(client)

    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert f"busy with {uploads.MOST_AT_ONCE} uploads" in refused.json()["detail"]
    assert put_segment(client).status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("is_lost", [True, False])
def test_page_without_its_objects_says_so(
    client: Client, objects_dir: Path, *, is_lost: bool
) -> None:
    run = make_run(make_attempt())
    client.force_login(make_user(project=run.plan.project, role=Role.VIEWER))
    shutil.rmtree(objects_dir)
    if not is_lost:
        put_in_the_way(objects_dir)

    response = client.get(reverse("run", args=[run.pk]))

    said = response.content.decode()
    (fault,) = StorageFault.objects.all()
    assert fault.operation == StorageOperation.READ
    if is_lost:
        assert response.status_code == 500
        assert "is not in the object store any more" in said
    else:
        assert (response.status_code, response["Retry-After"]) == (503, "5")
        assert "The object store could not be read: Not a directory." in said


@pytest.mark.django_db
def test_sweep_that_finds_no_store_notes_it_and_comes_back(objects_dir: Path) -> None:
    make_run(make_attempt())
    put_in_the_way(objects_dir)

    receipts.sweep_receipts(at=NOW)

    assert [fault.operation for fault in StorageFault.objects.all()] == [StorageOperation.SWEEP]
    assert Segment.objects.filter(receipt_stored_at__isnull=True).exists()
