"""The rows of one received segment, in one transaction: when it arrives, and when rows are made again."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import NamedTuple

from django.db import connection, transaction

from evalhub.protocol.segments import Receipt, Refused
from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.models import Refusal, Removal, Segment
from evidence.store.operations import documents, receipts, rows, secrets
from evidence.store.operations.reading import (
    Expected,
    Money,
    RefusedItem,
    SegmentContent,
    SegmentUnfitError,
)
from evidence.store.operations.uploads import Upload
from lanes.budget.operations import money as budget_operations
from lanes.budget.operations.money import SettledCall, UnreadableCost
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts as attempts_operations
from lanes.plans.operations import lifecycle as lifecycle_operations


class SegmentConflictError(DomainError):
    status = 409
    code = "segment-conflict"
    fix = "Send new bytes under a new seq; a received segment never changes."


class PlanPurgedError(DomainError):
    """All evidence of the plan was removed by a person; it takes none any more."""

    status = 410
    code = "plan-purged"
    fix = "Nothing is left to do: register another plan to run it again."

    @classmethod
    def of(cls, plan: Plan) -> "PlanPurgedError":
        return cls(
            f"The evidence of plan {plan.digest} was purged, and the plan takes none any more."
        )


class Received(NamedTuple):
    """A receipt, and whether it was made for this upload or an earlier one of the same bytes."""

    receipt: Receipt
    is_new: bool


class Before(NamedTuple):
    """A segment was recorded before and its rows were lost: what was decided then, stands."""

    receipt: Receipt | None
    """None of a segment that was refused as a whole."""
    seen_at: datetime
    """When the receipt or the reason was seen beside the segment."""
    is_counted: bool
    """Whether the plan's row has seen it."""
    removal: Removal | None = None
    """Why its bytes were removed, if they were; that they are gone, the sweep sees."""


def expected_of(attempt: Attempt, *, at: datetime) -> Expected:
    """Return what a segment of an attempt that arrives at `at` must say of itself."""
    lane, plan = attempt.lane, attempt.lane.plan
    facts = queries.plan_facts(plan)
    return Expected(
        # As the plan itself names it: what was imported into another project stays what it was.
        project=plans_queries.plan_document(plan).project,
        plan=plan.digest,
        lane=lane.name,
        attempt=attempt.key,
        tested_sha=facts.commits[lane.name],
        opened_at=attempt.opened_at,
        received_at=at,
        clock_shown_at=max(at, attempt.last_heard_at, attempt.clock_ahead_until or at),
        owners=facts.owners,
    )


def known_receipt(attempt: Attempt, seq: int, upload: Upload) -> Received | None:
    """Return the receipt of an attempt's segment; None if there is none of this seq.

    Raises:
        SegmentConflictError: if other bytes were received under this seq.
    """
    for sha256, receipt in Segment.objects.filter(attempt=attempt, seq=seq).values_list(
        "sha256", "receipt"
    ):
        if sha256 != upload.sha256:
            raise SegmentConflictError(
                f"Segment {seq} was received with {sha256}; these bytes have {upload.sha256}."
            )
        return Received(receipts.receipt_of(receipt), is_new=False)
    return None


def is_removed(attempt: Attempt, seq: int) -> bool:
    """Return whether the bytes of a received segment were ordered away."""
    return Segment.objects.filter(attempt=attempt, seq=seq, removal__isnull=False).exists()


def record_segment(  # noqa: PLR0913 - what arrives and what is made again go one way
    attempt: Attempt,
    upload: Upload,
    content: SegmentContent,
    *,
    object_key: str,
    at: datetime,
    before: Before | None = None,
    is_heard: bool = True,
) -> Received:
    """Write the rows of a segment whose object is durable, and return its receipt.

    Raises:
        SegmentConflictError: if other bytes were received under its seq meanwhile.
        PlanPurgedError: if the plan was purged meanwhile.
        ReceiptContradictedError: if the rows that are there do not allow what was decided before.
    """
    header = content.header
    assert header is not None  # noqa: S101 - `sorted_segment` has refused any other
    with _transaction():
        # Rows of the budget are locked before attempts and plans, here as everywhere.
        _settle(attempt, content.money, at=at)
        _lock(attempt)
        known = known_receipt(attempt, header.seq, upload)
        if known is not None:
            return known
        if before is None:
            _expect_not_purged(attempt)
        if before is None or before.receipt is None:
            decided = rows.decided_items(attempt, content)
            receipt = Receipt(
                seq=header.seq,
                sha256=upload.sha256,
                accepted=len(decided.fresh) + len(decided.repeated),
                refused=[_told(item) for item in decided.refused],
                received_at=at,
            )
        else:
            receipt = before.receipt
            decided = rows.decided_before(attempt, content, receipt)
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
            receipt_stored_at=before.seen_at if before is not None else None,
            removal=before.removal if before is not None else None,
        )
        items = rows.store_items(segment, attempt, decided.fresh)
        rows.store_refusals(attempt, decided.refused, segment=segment, object_key=object_key, at=at)
        _note_unknown(attempt, content.money, at=at)
        if before is None:
            secrets.note_found(attempt, segment, items, at=at)
        _tell_plan(attempt, before, at=at, late=bool(decided.fresh), is_heard=is_heard)
    if before is None:
        receipts.store_receipt(segment)
    return Received(receipt, is_new=True)


def quarantine_segment(  # noqa: PLR0913 - as above
    attempt: Attempt,
    upload: Upload,
    error: SegmentUnfitError,
    *,
    object_key: str,
    at: datetime,
    before: Before | None = None,
    is_heard: bool = True,
) -> None:
    """Keep a whole refused segment, once however often it is sent.

    Raises:
        PlanPurgedError: if the plan was purged meanwhile.
    """
    with _transaction():
        _settle(attempt, error.money, at=at)
        _lock(attempt)
        if Refusal.objects.filter(attempt=attempt, object_key=object_key, path="").exists():
            return
        if before is None:
            _expect_not_purged(attempt)
        item = RefusedItem("", error.unfit, upload.sha256, upload.size_bytes)
        (refusal,) = rows.store_refusals(
            attempt,
            [item],
            segment=None,
            object_key=object_key,
            at=at,
            stored_at=before.seen_at if before is not None else None,
        )
        if before is not None and before.removal is not None:
            Refusal.objects.filter(pk=refusal.pk).update(removal=before.removal)
        _note_unknown(attempt, error.money, at=at)
        _tell_plan(attempt, before, at=at, late=False, is_heard=is_heard)
    if before is None:
        documents.store_refusal(refusal)


# Of a process: SQLite lets one write at a time, and whoever else wants to looks again every so often,
# up to a tenth of a second later. With many lanes at once some never come at the right moment.
_turns = threading.Lock()


@contextmanager
def _transaction() -> Iterator[None]:
    """Open the transaction of a segment; on SQLite when it is this thread's turn to write."""
    with ExitStack() as turn:
        if connection.vendor == "sqlite":
            turn.enter_context(_turns)
        with transaction.atomic(durable=True):
            # The next may write before the tasks are sent that this one asks for.
            transaction.on_commit(turn.close)
            yield


def _tell_plan(
    attempt: Attempt, before: Before | None, *, at: datetime, late: bool, is_heard: bool
) -> None:
    if is_heard and (before is None or at > attempt.last_heard_at):
        attempts_operations.touch_attempt(attempt, at=at)
    if before is None or not before.is_counted:
        lifecycle_operations.bump_inputs(attempt.lane.plan, at=at, late=late)


def _expect_not_purged(attempt: Attempt) -> None:
    # A purge ends the attempts: what still runs need not be asked for.
    if not attempt.accepts_evidence and queries.is_purged(attempt.lane.plan):
        raise PlanPurgedError.of(attempt.lane.plan)


def _lock(attempt: Attempt) -> None:
    """Lock an attempt's row, and bring the state up to date that it had when it was read."""
    row = Attempt.objects.select_for_update(no_key=True).filter(pk=attempt.pk)
    attempt.state = row.values_list("state", flat=True).get()


def _settle(attempt: Attempt, money: Money, *, at: datetime) -> None:
    lane, plan = attempt.lane, attempt.lane.plan
    # What a foreign plan cost was paid where it ran.
    if not money.calls or plan.is_foreign:
        return
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
    if plan.is_foreign:
        return
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
