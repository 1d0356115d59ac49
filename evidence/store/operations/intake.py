"""Receiving a segment: acknowledged only when bytes are stored, hashed here, and rows committed."""

from datetime import datetime
from typing import BinaryIO

from evalhub.web.errors import DomainError
from evidence.store.operations import objects, recording
from evidence.store.operations.reading import SegmentUnfitError, sorted_segment
from evidence.store.operations.recording import Received
from evidence.store.operations.uploads import Upload, received_upload
from evidence.store.storage import object_store
from lanes.plans.models import Attempt

_LARGEST_SEQ = 1_000_000


class SegmentRefusedError(DomainError):
    """A whole segment is in quarantine: there is no receipt, and its seq is free."""

    status = 422
    code = "segment-refused"


def receive_segment(
    attempt: Attempt,
    seq: int,
    *,
    stream: BinaryIO,
    length: int,
    content_digest: str,
    at: datetime,
) -> Received:
    """Store a segment, sort its items, and return its receipt. The same bytes give it again.

    A crash between any two steps leaves a true receipt, or nothing that counts: the object is
    durable before the transaction, and the receipt is in the transaction's row.

    Raises:
        SegmentConflictError: if other bytes were received under this seq.
        SegmentRefusedError: if it is no safe archive or not for this address; its bytes are kept.
        DomainError: from `received_upload`, with nothing kept; from the object store.
    """
    if not 1 <= seq <= _LARGEST_SEQ:
        raise SegmentRefusedError(f"The seq was {seq}; expected 1 to {_LARGEST_SEQ}.")
    with received_upload(stream, length=length, content_digest=content_digest) as upload:
        known = recording.known_receipt(attempt, seq, upload)
        if known is not None:
            return known
        key = _stored_object(attempt, seq, upload)
        try:
            expected = recording.expected_of(attempt, at=at)
            content = sorted_segment(upload.file, expected=expected, seq=seq)
        except SegmentUnfitError as error:
            recording.quarantine_segment(attempt, upload, error, object_key=key, at=at)
            raise SegmentRefusedError(
                f"The segment was refused as {error.unfit.category} ({error.unfit.code}):"
                f" {error.unfit.detail}"
            ) from None
    return recording.record_segment(attempt, upload, content, object_key=key, at=at)


def _stored_object(attempt: Attempt, seq: int, upload: Upload) -> str:
    objects.put_attempt_documents(attempt)
    key = objects.segment_key(attempt, seq=seq, sha256=upload.sha256)
    upload.file.seek(0)
    object_store().put(key, upload.file)
    return key
