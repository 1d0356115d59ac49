"""What is written down when the object store fails, and the probe that looks whether it works."""

from pathlib import Path

import pytest
from django.db import transaction
from pytest_django import Settings

from evidence.store import queries
from evidence.store.models import StorageFault, StorageOperation
from evidence.store.operations import faults
from evidence.store.storage import StorageUnavailableError, object_store, probe
from tests.lanes.factories import NOW


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
