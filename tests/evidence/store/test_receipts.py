"""Receipts as objects: written at once, and by the sweep where that failed."""

import json
from pathlib import Path

import pytest
from django.db import transaction

from evidence.store.models import Segment
from evidence.store.operations import objects, receipts
from evidence.store.storage import StorageUnavailableError, object_store
from evidence.store.tasks import sweep_receipts
from tests.evidence.factories import make_segment, send_segment
from tests.lanes.factories import NOW, make_attempt

pytestmark = pytest.mark.django_db


def sent(seq: int = 1) -> Segment:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"text"}, seq=seq)
    send_segment(attempt, data, seq=seq)
    return Segment.objects.get(attempt=attempt)


def stored_receipt(segment: Segment) -> object:
    with object_store().open(objects.receipt_key(segment.object_key)) as file:
        return json.load(file)


def test_sweep_writes_the_receipt_that_a_crash_left_out() -> None:
    segment = sent()
    object_store().delete(objects.receipt_key(segment.object_key))

    written = receipts.sweep_receipts(at=NOW)

    assert written == 1
    assert stored_receipt(segment) == segment.receipt
    segment.refresh_from_db()
    assert segment.receipt_stored_at == NOW


def test_sweep_notes_what_is_there_without_writing() -> None:
    segment = sent()

    assert receipts.sweep_receipts(at=NOW) == 0

    segment.refresh_from_db()
    assert segment.receipt_stored_at == NOW


def test_task_sweeps() -> None:
    segment = sent()
    object_store().delete(objects.receipt_key(segment.object_key))

    sweep_receipts.delay()

    assert stored_receipt(segment) == segment.receipt


def block(folder: Path) -> None:
    """Put a file where the object store needs a folder: root may write anywhere else."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    folder.write_text("in the way")


def test_receipt_is_given_even_if_its_object_cannot_be_written(objects_dir: Path) -> None:
    segment = sent()
    block(objects_dir)

    receipts.store_receipt(segment)

    segment.refresh_from_db()
    assert segment.receipt_stored_at is None


def test_sweep_leaves_to_the_next_what_cannot_be_written(objects_dir: Path) -> None:
    segment = sent()
    block(objects_dir)

    assert receipts.sweep_receipts(at=NOW) == 0

    segment.refresh_from_db()
    assert segment.receipt_stored_at is None


def test_no_segment_is_acknowledged_that_could_not_be_stored(objects_dir: Path) -> None:
    objects_dir.write_text("in the way")
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"text"})

    with pytest.raises(StorageUnavailableError):
        send_segment(attempt, data)

    assert not Segment.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_upload_is_never_inside_a_write_transaction() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"text"})

    with transaction.atomic(), pytest.raises(RuntimeError, match="durable atomic block"):
        send_segment(attempt, data)

    assert not Segment.objects.exists()
