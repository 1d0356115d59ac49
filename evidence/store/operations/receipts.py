"""Receipts beside the segments: written before the answer, and by a sweep where that failed."""

from datetime import datetime

from evalhub.protocol.segments import Receipt
from evidence.store.models import Segment, StorageOperation
from evidence.store.operations import faults, objects
from evidence.store.storage import StorageUnavailableError, object_store

_RECEIPTS_AT_ONCE = 500


def receipt_of(document: object) -> Receipt:
    """Return the receipt that a segment's row holds as a document."""
    return Receipt.model_validate(document, strict=False)


def store_receipt(segment: Segment) -> None:
    """Write a segment's receipt beside its object, unless the object store is away.

    The receipt is true without it: the row is the fact, and the sweep comes back. That the object is
    there is noted by the sweep, for many segments in one transaction.
    """
    try:
        objects.put_document(objects.receipt_key(segment.object_key), segment.receipt)
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.RECEIVE, error, at=segment.received_at)


def sweep_receipts(*, at: datetime) -> int:
    """Write the receipts that are absent, oldest first; return how many were written."""
    unseen = Segment.objects.filter(receipt_stored_at__isnull=True).order_by("received_at", "pk")
    stored: list[int] = []
    written = 0
    try:
        for segment in unseen[:_RECEIPTS_AT_ONCE]:
            key = objects.receipt_key(segment.object_key)
            if not object_store().exists(key):
                objects.put_document(key, segment.receipt)
                written += 1
            stored.append(segment.pk)
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.SWEEP, error, at=at)
    Segment.objects.filter(pk__in=stored).update(receipt_stored_at=at)
    return written
