"""Receipts beside the segments: written before the answer, and by a sweep where that failed."""

import logging
from datetime import datetime

from evalhub.protocol.segments import Receipt
from evidence.store.models import Segment
from evidence.store.operations import objects
from evidence.store.storage import StorageUnavailableError

logger = logging.getLogger(__name__)

_RECEIPTS_AT_ONCE = 200


def receipt_of(segment: Segment) -> Receipt:
    """Return the receipt that a segment's row holds."""
    return Receipt.model_validate(segment.receipt, strict=False)


def store_receipt(segment: Segment, *, at: datetime) -> bool:
    """Write a segment's receipt beside its object; False if the object store is away.

    The receipt is true without it: the row is the fact, and the sweep comes back.
    """
    try:
        objects.put_document(objects.receipt_key(segment.object_key), segment.receipt)
    except StorageUnavailableError as error:
        logger.warning("receipt left to its sweep: %s: %s", segment.object_key, error)
        return False
    Segment.objects.filter(pk=segment.pk).update(receipt_stored_at=at)
    return True


def sweep_receipts(*, at: datetime) -> int:
    """Write the receipts that are absent, oldest first; return how many were written."""
    absent = Segment.objects.filter(receipt_stored_at__isnull=True).order_by("received_at", "pk")
    written = 0
    for segment in absent[:_RECEIPTS_AT_ONCE]:
        if not store_receipt(segment, at=at):
            break
        written += 1
    return written
