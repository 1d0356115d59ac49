"""Receiving a segment: acknowledged only when bytes are stored, hashed here, and rows committed."""

from datetime import datetime
from typing import BinaryIO, NamedTuple

from django.db import transaction

from evalhub.protocol.segments import Receipt, Refused
from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.models import Refusal, Segment
from evidence.store.operations import objects, receipts, rows
from evidence.store.operations.reading import (
    Expected,
    Money,
    RefusedItem,
    SegmentContent,
    SegmentUnfitError,
    sorted_segment,
)
from evidence.store.operations.uploads import Upload, received_upload
from evidence.store.storage import object_store
from lanes.budget.operations import money as budget_operations
from lanes.budget.operations.money import SettledCall, UnreadableCost
from lanes.plans.models import Attempt
from lanes.plans.operations import attempts as attempts_operations
from lanes.plans.operations import lifecycle as lifecycle_operations

_LARGEST_SEQ = 1_000_000


class SegmentConflictError(DomainError):
    status = 409
    code = "segment-conflict"
    fix = "Send new bytes under a new seq; a received segment never changes."


class SegmentRefusedError(DomainError):
    """A whole segment is in quarantine: there is no receipt, and its seq is free."""

    status = 422
    code = "segment-refused"


class Received(NamedTuple):
    """A receipt, and whether it was made for this upload or an earlier one of the same bytes."""

    receipt: Receipt
    is_new: bool


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
        known = _known(attempt, seq, upload)
        if known is not None:
            return known
        key = _stored_object(attempt, seq, upload)
        try:
            content = sorted_segment(upload.file, expected=_expected(attempt, at=at), seq=seq)
        except SegmentUnfitError as error:
            _quarantine(attempt, upload, error, object_key=key, at=at)
            raise SegmentRefusedError(
                f"The segment was refused as {error.unfit.category} ({error.unfit.code}):"
                f" {error.unfit.detail}"
            ) from None
    return _recorded(attempt, upload, content, object_key=key, at=at)


def _known(attempt: Attempt, seq: int, upload: Upload) -> Received | None:
    segment = Segment.objects.filter(attempt=attempt, seq=seq).first()
    if segment is None:
        return None
    if segment.sha256 != upload.sha256:
        raise SegmentConflictError(
            f"Segment {seq} was received with {segment.sha256}; these bytes have {upload.sha256}."
        )
    return Received(receipts.receipt_of(segment), is_new=False)


def _stored_object(attempt: Attempt, seq: int, upload: Upload) -> str:
    objects.put_attempt_documents(attempt)
    key = objects.segment_key(attempt, seq=seq, sha256=upload.sha256)
    upload.file.seek(0)
    object_store().put(key, upload.file)
    return key


def _expected(attempt: Attempt, *, at: datetime) -> Expected:
    lane, plan = attempt.lane, attempt.lane.plan
    facts = queries.plan_facts(plan)
    return Expected(
        project=plan.project.name,
        plan=plan.digest,
        lane=lane.name,
        attempt=attempt.key,
        tested_sha=facts.commits[lane.name],
        opened_at=attempt.opened_at,
        received_at=at,
        owners=facts.owners,
    )


def _recorded(
    attempt: Attempt, upload: Upload, content: SegmentContent, *, object_key: str, at: datetime
) -> Received:
    header = content.header
    assert header is not None  # noqa: S101 - `sorted_segment` has refused any other
    with transaction.atomic(durable=True):
        # Rows of the budget are locked before attempts and plans, here as everywhere.
        _settle(attempt, content.money, at=at)
        locked = _locked(attempt)
        known = _known(attempt, header.seq, upload)
        if known is not None:
            return known
        decided = rows.decided_items(locked, content.accepted)
        turned_away = [*content.refused, *decided.refused]
        receipt = Receipt(
            seq=header.seq,
            sha256=upload.sha256,
            accepted=len(decided.fresh) + len(decided.repeated),
            refused=[_told(item) for item in turned_away],
            received_at=at,
        )
        segment = Segment.objects.create(
            attempt=attempt,
            seq=header.seq,
            sha256=upload.sha256,
            size_bytes=upload.size_bytes,
            segment_class=header.class_,
            object_key=object_key,
            created_at=header.created_at,
            received_at=at,
            receipt=receipt.model_dump(mode="json"),
        )
        rows.store_items(segment, attempt, decided.fresh)
        rows.store_refusals(attempt, turned_away, segment=segment, object_key=object_key, at=at)
        _note_unknown(attempt, content.money, at=at)
        attempts_operations.touch_attempt(attempt, at=at)
        lifecycle_operations.bump_inputs(attempt.lane.plan, at=at, late=bool(decided.fresh))
    receipts.store_receipt(segment)
    return Received(receipt, is_new=True)


def _quarantine(
    attempt: Attempt, upload: Upload, error: SegmentUnfitError, *, object_key: str, at: datetime
) -> None:
    """Keep a whole refused segment, once however often it is sent."""
    with transaction.atomic(durable=True):
        _settle(attempt, error.money, at=at)
        _locked(attempt)
        if Refusal.objects.filter(attempt=attempt, object_key=object_key, path="").exists():
            return
        item = RefusedItem("", error.unfit, upload.sha256, upload.size_bytes)
        rows.store_refusals(attempt, [item], segment=None, object_key=object_key, at=at)
        _note_unknown(attempt, error.money, at=at)
        attempts_operations.touch_attempt(attempt, at=at)
        lifecycle_operations.bump_inputs(attempt.lane.plan, at=at)


def _locked(attempt: Attempt) -> Attempt:
    return Attempt.objects.select_for_update(no_key=True).get(pk=attempt.pk)


def _settle(attempt: Attempt, money: Money, *, at: datetime) -> None:
    if not money.calls:
        return
    lane, plan = attempt.lane, attempt.lane.plan
    calls = [
        SettledCall(
            project=plan.project,
            plan=plan.digest,
            lane=lane.name,
            attempt=attempt.key,
            call_id=call.call_id,
            rubric=call.rubric,
            stage=call.stage,
            cost_microusd=call.cost_microusd,
            cost_source=call.cost_source,
        )
        for call in money.calls
    ]
    budget_operations.settle(calls, at=at)


def _note_unknown(attempt: Attempt, money: Money, *, at: datetime) -> None:
    lane, plan = attempt.lane, attempt.lane.plan
    for path, lines in money.unknown.items():
        note = UnreadableCost(plan.project, plan.digest, lane.name, attempt.key, path, lines)
        budget_operations.note_unknown_cost(note, at=at)


def _told(item: RefusedItem) -> Refused:
    return Refused(
        path=item.path,
        category=item.unfit.category,
        code=item.unfit.code,
        detail=item.unfit.detail,
    )
