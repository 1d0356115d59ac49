"""Which objects the rows of a plan vouch for, and what must be in each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.retained import RetainedAttempt
from evalhub.protocol.tombstones import RemovalOrder
from evidence.store.models import Refusal, Seal, Segment
from evidence.store.operations import documents, objects, tombstones
from evidence.store.operations.tombstones import Stored
from lanes.plans.models import Attempt, Origin, Plan

_ROWS_AT_ONCE = 2_000


class _OfBytes(TypedDict):
    is_bytes: bool
    is_required: bool
    is_gone: bool


@dataclass(frozen=True, kw_only=True)
class Vouched:
    """An object that rows know of. Its bytes have a digest, or are those that `written` returns."""

    key: str
    what: str
    """Names it in a sentence: `Segment 3 of attempt …`."""
    is_required: bool = True
    """False while nobody has seen it yet: a sweep is about to write it."""
    sha256: str | None = None
    written: Callable[[], bytes] | None = None
    """Returns the bytes from rows, where rows hold them all: such an object can be written again."""
    is_like: Callable[[bytes], bool] | None = None
    """Says whether bytes are right that may be others than `written` returns; asked instead."""
    segment_id: int | None = None
    is_bytes: bool = False
    """Whether it is what a lane sent, and not a document that the server wrote beside it."""
    is_gone: bool = False
    """It was removed on purpose, and is not to be there."""


def vouched_by_plan(plan: Plan) -> Iterator[Vouched]:
    """Yield what the rows of a plan itself vouch for, its attempts aside.

    `state.json` is not among it: it tells what was true when it was written.
    """
    folder, is_copied = objects.plan_folder(plan), hasattr(plan, "copy")
    evidence = Segment.objects.filter(attempt__lane__plan=plan).exists()
    yield from _origin(plan)
    yield Vouched(
        key=f"{folder}/{objects.PLAN}",
        what="The plan's document",
        is_required=is_copied or evidence,
        sha256=plan.digest,
        written=partial(_plan_bytes, plan),
    )
    yield Vouched(
        key=f"{folder}/{objects.POLICY}",
        what="The plan's policy",
        is_required=is_copied,
        sha256=plan.policy.digest,
        written=partial(_policy_bytes, plan),
    )


def _origin(plan: Plan) -> Iterator[Vouched]:
    document = Origin.objects.filter(plan=plan).values_list("document", flat=True).first()
    if document is not None:
        yield Vouched(
            key=f"{objects.plan_folder(plan)}/{objects.FOREIGN}",
            what="What tells where the plan was imported from",
            written=document.encode,
        )


def vouched_by_attempt(attempt: Attempt) -> Iterator[Vouched]:
    """Yield what the rows of one attempt vouch for."""
    folder = objects.attempt_folder(attempt)
    has_evidence = False
    for one in (*_segments(attempt), *_refused_segments(attempt)):
        has_evidence = True
        yield one
    yield Vouched(
        key=f"{folder}/{objects.ATTEMPT}",
        what=f"The document of attempt {attempt.key}",
        is_required=has_evidence,
        written=partial(objects.document_bytes, objects.attempt_document(attempt)),
        is_like=partial(_tells_of, attempt),
    )
    seal = Seal.objects.filter(attempt=attempt).first()
    if seal is not None:
        yield Vouched(
            key=f"{folder}/{objects.SEAL}",
            what=f"The seal of attempt {attempt.key}",
            is_required=seal.stored_at is not None,
            written=partial(objects.document_bytes, documents.seal_document(seal)),
        )


def _segments(attempt: Attempt) -> Iterator[Vouched]:
    rows = Segment.objects.filter(attempt=attempt).select_related("removal")
    for row in rows.order_by("seq").iterator(_ROWS_AT_ONCE):
        yield Vouched(
            key=row.object_key,
            what=f"Segment {row.seq} of attempt {attempt.key}",
            sha256=row.sha256,
            segment_id=row.pk,
            **_of_bytes(row),
        )
        yield from _tombstone(row, f"segment {row.seq} of attempt {attempt.key}")
        yield Vouched(
            key=objects.receipt_key(row.object_key),
            what=f"The receipt of segment {row.seq} of attempt {attempt.key}",
            is_required=row.receipt_stored_at is not None,
            written=partial(objects.document_bytes, row.receipt),
        )


def _refused_segments(attempt: Attempt) -> Iterator[Vouched]:
    rows = Refusal.objects.filter(attempt=attempt, segment__isnull=True, path="")
    rows = rows.select_related("removal")
    for row in rows.order_by("pk").iterator(_ROWS_AT_ONCE):
        yield Vouched(
            key=row.object_key,
            what=f"A refused segment of attempt {attempt.key}",
            sha256=row.sha256,
            **_of_bytes(row),
        )
        yield from _tombstone(row, f"a refused segment of attempt {attempt.key}")
        yield Vouched(
            key=objects.refusal_key(row.object_key),
            what=f"The reason beside a refused segment of attempt {attempt.key}",
            is_required=row.stored_at is not None,
            written=partial(objects.document_bytes, documents.refusal_document(row)),
        )


def _of_bytes(row: Stored) -> _OfBytes:
    # Those that were ordered away may go at any moment.
    return {
        "is_bytes": True,
        "is_required": row.removal_id is None,
        "is_gone": row.gone_at is not None,
    }


def _tombstone(row: Stored, what: str) -> Iterator[Vouched]:
    if row.removal is None:
        return
    order = tombstones.order_of(row.removal)
    yield Vouched(
        key=objects.tombstone_key(row.object_key),
        what=f"The tombstone of {what}",
        is_required=row.gone_at is not None,
        written=partial(_tombstone_bytes, row, order),
        is_like=partial(tombstones.is_tombstone_of, row),
    )


def _tombstone_bytes(row: Stored, order: RemovalOrder) -> bytes:
    return objects.document_bytes(tombstones.tombstone_from_rows(row, order))


def _tells_of(attempt: Attempt, data: bytes) -> bool:
    try:
        told = parse_document(RetainedAttempt, data)
    except DocumentError:
        return False
    # A server whose clock was set back has moved the row's time, not the object's.
    was_moved = told.opened_at > attempt.opened_at
    now = told.model_copy(update={"opened_at": attempt.opened_at}) if was_moved else told
    return now == objects.attempt_document(attempt)


def _plan_bytes(plan: Plan) -> bytes:
    return str(Plan.objects.values_list("document", flat=True).get(pk=plan.pk)).encode()


def _policy_bytes(plan: Plan) -> bytes:
    return plan.policy.document.encode()
