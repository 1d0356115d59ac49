"""Receiving a segment: acknowledged only when bytes are stored, hashed here, and rows committed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import BinaryIO

from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.operations import objects, recording
from evidence.store.operations.reading import SegmentUnfitError, sorted_segment
from evidence.store.operations.recording import PlanPurgedError, Received
from evidence.store.operations.uploads import Upload, received_upload
from evidence.store.storage import object_store
from lanes.plans.models import Attempt
from lanes.plans.operations import attempts as attempts_operations

HEARD_AGAIN_AFTER = timedelta(minutes=5)
"""How long a lane is quiet before an upload is noted ahead of its rows; heartbeats come more often."""
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
        PlanPurgedError: if all evidence of the plan was removed.
        DomainError: from `received_upload`, with nothing kept; from the object store.
    """
    if not 1 <= seq <= _LARGEST_SEQ:
        raise SegmentRefusedError(f"The seq was {seq}; expected 1 to {_LARGEST_SEQ}.")
    removed = queries.removals_known(attempt.lane.plan)
    if queries.PURGED_WHOLE in removed:
        raise PlanPurgedError.of(attempt.lane.plan)
    with received_upload(stream, length=length, content_digest=content_digest) as upload:
        known = recording.known_receipt(attempt, seq, upload)
        if known is not None:
            return known
        if removed:
            _expect_not_removed(attempt, seq, upload)
        _note_heard(attempt, at=at)
        key = _stored_object(attempt, seq, upload)
        return take_stored(attempt, seq, upload, object_key=key, at=at)


def take_stored(
    attempt: Attempt,
    seq: int,
    upload: Upload,
    *,
    object_key: str,
    at: datetime,
    is_heard: bool = True,
) -> Received:
    """Write the rows of a segment whose object is durable, and return its receipt.

    `is_heard`: whether its lane has sent it just now.

    Raises:
        SegmentConflictError: if other bytes were received under this seq.
        SegmentRefusedError: if it is no safe archive or not for this address; its bytes are kept.
        PlanPurgedError: if all evidence of the plan was removed meanwhile; so is this.
    """
    with _not_kept_of_a_purged_plan(object_key):
        try:
            expected = recording.expected_of(attempt, at=at)
            content = sorted_segment(upload.file, expected=expected, seq=seq)
        except SegmentUnfitError as error:
            recording.quarantine_segment(
                attempt, upload, error, object_key=object_key, at=at, is_heard=is_heard
            )
            if queries.refused_and_removed(attempt, object_key) is not None:
                _remove_again(object_key)
            raise SegmentRefusedError(
                f"The segment was refused as {error.unfit.category} ({error.unfit.code}):"
                f" {error.unfit.detail}"
            ) from None
        received = recording.record_segment(
            attempt, upload, content, object_key=object_key, at=at, is_heard=is_heard
        )
    if not received.is_new and recording.is_removed(attempt, seq):
        _remove_again(object_key)
    return received


@contextmanager
def _not_kept_of_a_purged_plan(object_key: str) -> Iterator[None]:
    try:
        yield
    except PlanPurgedError:
        object_store().delete(object_key)
        raise


def _remove_again(object_key: str) -> None:
    """Remove what was received and removed while an upload of the same bytes was under way.

    While there is no tombstone, the bytes are still to go, and it is to be written from them.
    """
    if object_store().exists(objects.tombstone_key(object_key)):
        object_store().delete(object_key)


def _expect_not_removed(attempt: Attempt, seq: int, upload: Upload) -> None:
    """Turn away a refused segment whose bytes were removed on purpose, before they are stored again."""
    key = objects.segment_key(attempt, seq=seq, sha256=upload.sha256)
    removal = queries.refused_and_removed(attempt, key)
    if removal is not None:
        raise SegmentRefusedError(f"The segment was refused before. {removal.sentence}")


def _note_heard(attempt: Attempt, *, at: datetime) -> None:
    """Note that a lane is heard which has been quiet, before anything of it is stored.

    Should the transaction never come, `orphans` finds the object: it looks where somebody was heard.
    """
    if at - attempt.last_heard_at > HEARD_AGAIN_AFTER:
        attempts_operations.touch_attempt(attempt, at=at)


def _stored_object(attempt: Attempt, seq: int, upload: Upload) -> str:
    objects.put_attempt_documents(attempt)
    key = objects.segment_key(attempt, seq=seq, sha256=upload.sha256)
    upload.file.seek(0)
    object_store().put(key, upload.file)
    return key
