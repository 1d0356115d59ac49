"""Removing bytes: ordered in one transaction, carried out by a sweep, true after a crash at any step.

The order of steps: the rows name the order (from then on nobody is given the bytes); for each segment
its receipt and its tombstone lie beside it, durable; its bytes go; its row says so. The next sweep
goes on from whatever step was the last.
"""

import secrets
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, QuerySet, Sum

from evalhub.protocol.tombstones import Cause, RemovalOrder, RemovalScope
from evidence.store.models import Refusal, Removal, Segment, StorageOperation
from evidence.store.operations import counting, documents, faults, objects, tombstones
from evidence.store.operations.objects import place_of
from evidence.store.operations.tombstones import Stored
from evidence.store.storage import StorageUnavailableError, object_store
from lanes.plans.models import Attempt, Plan

AT_ONCE = 200
"""So many objects go in one sweep, so that uploads and pages hardly notice."""


class Stock(NamedTuple):
    """Received bytes of one plan: segments, and those that were refused as a whole."""

    segments: QuerySet[Segment]
    refusals: QuerySet[Refusal]

    def kept(self) -> "Stock":
        """Return what of it was not ordered away yet."""
        return Stock(
            self.segments.filter(removal__isnull=True), self.refusals.filter(removal__isnull=True)
        )

    def sums(self) -> "Sums":
        total = Sums(0, 0)
        for rows in self:
            found = rows.aggregate(count=Count("pk"), size=Sum("size_bytes"))
            total = Sums(total.segments + found["count"], total.size_bytes + (found["size"] or 0))
        return total


class Sums(NamedTuple):
    segments: int
    size_bytes: int


class Why(NamedTuple):
    """Who wants something removed, what of a plan, and the reason."""

    cause: Cause
    scope: RemovalScope
    subject: str
    ordered_by: str
    reason: str


def whole_segments_refused(plan: Plan) -> QuerySet[Refusal]:
    """Return the refusals of a plan that have bytes of their own."""
    return Refusal.objects.filter(plan=plan, segment__isnull=True, path="")


def order_removal(plan: Plan, stock: Stock, why: Why, *, at: datetime) -> Removal | None:
    """Have bytes removed, in the caller's transaction; None if there is nothing left to remove."""
    kept = stock.kept()
    removal = Removal.objects.create(
        key=f"rem_{secrets.token_urlsafe(12)}",
        plan=plan,
        ordered_at=at,
        segments=0,
        size_bytes=0,
        **why._asdict(),
    )
    changed = kept.segments.update(removal=removal) + kept.refusals.update(removal=removal)
    if not changed and why.scope is not RemovalScope.PLAN:
        removal.delete()
        return None
    # Counted of what was marked: another segment may have come between counting and marking.
    sums = Stock(
        Segment.objects.filter(removal=removal, gone_at__isnull=True),
        Refusal.objects.filter(removal=removal, gone_at__isnull=True),
    ).sums()
    removal.segments, removal.size_bytes = sums
    removal.save(update_fields=["segments", "size_bytes"])
    return removal


def sweep_removals(*, at: datetime) -> int:
    """Carry out what was ordered, oldest first, some objects at a time; return how many went."""
    unfinished = Removal.objects.filter(finished_at__isnull=True).order_by("ordered_at", "pk")
    # Rows that are being made again are a part; what they lack would look as if it were done.
    whole = unfinished.exclude(plan__copy__rebuild_counted__isnull=False)
    gone = 0
    try:
        for removal in whole.select_related("plan__project").defer("plan__document")[:AT_ONCE]:
            gone += carry_out(removal, most=AT_ONCE - gone, at=at)
            if gone >= AT_ONCE:
                break
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.SWEEP, error, at=at)
    return gone


def carry_out(removal: Removal, *, most: int, at: datetime) -> int:
    """Remove up to `most` objects of an order, and finish it if they were the last; return how many.

    Safe to repeat, also by two at once.
    """
    order = tombstones.order_of(removal)
    gone = 0
    for stored in islice(_pending(removal), most):
        _remove(stored, order, at=at)
        gone += 1
    if next(_pending(removal), None) is None:
        if removal.cause == Cause.PURGE and removal.scope == RemovalScope.PLAN:
            _remove_unknown(removal.plan)
        Removal.objects.filter(pk=removal.pk, finished_at__isnull=True).update(finished_at=at)
    return gone


def _pending(removal: Removal) -> Iterator[Stored]:
    segments = Segment.objects.filter(removal=removal, gone_at__isnull=True)
    refusals = Refusal.objects.filter(removal=removal, gone_at__isnull=True)
    related = ("attempt__lane__plan__project", "attempt__lane__plan__policy")
    first = segments.select_related(*related).order_by("pk")[:AT_ONCE]
    then = refusals.select_related(*related).order_by("pk")[:AT_ONCE]
    # Each is asked for only when it is its turn.
    return chain(first, then)


def _remove(stored: Stored, order: RemovalOrder, *, at: datetime) -> None:
    _write_answer(stored)
    write_tombstone(stored, order)
    object_store().delete(stored.object_key)
    with transaction.atomic():
        if type(stored).objects.filter(pk=stored.pk, gone_at__isnull=True).update(gone_at=at):
            counting.take_off(stored)


def _write_answer(stored: Stored) -> None:
    """See to it that the receipt, or the reason, lies beside the tombstone: rows are made from both."""
    if isinstance(stored, Segment):
        if stored.receipt_stored_at is None:
            objects.put_document(objects.receipt_key(stored.object_key), stored.receipt)
    elif stored.stored_at is None:
        key = objects.refusal_key(stored.object_key)
        objects.put_document(key, documents.refusal_document(stored))


def write_tombstone(stored: Stored, order: RemovalOrder) -> None:
    """Write the tombstone of a segment unless it is there.

    Two that do this at once write the same bytes, or the later one finds the tombstone of the first:
    one is missing only while the segment is not.
    """
    key = objects.tombstone_key(stored.object_key)
    if object_store().exists(key):
        return
    tombstone = tombstones.tombstone_from_bytes(stored, order)
    if tombstone is None and object_store().exists(key):
        return
    objects.put_document(key, tombstone or tombstones.tombstone_from_rows(stored, order))


def known_removal(plan: Plan, order: RemovalOrder) -> Removal:
    """Return the order that a tombstone tells of; make its row again if it was lost."""
    told = order.model_dump(exclude={"key"})
    removal, _ = Removal.objects.get_or_create(key=order.key, defaults={"plan": plan, **told})
    return removal


def is_unaware(attempt: Attempt, object_key: str) -> bool:
    """Return whether a segment has a row that knows nothing of its removal."""
    return any(rows.exists() for rows in _unaware(attempt, object_key))


@transaction.atomic
def adopt(attempt: Attempt, object_key: str, order: RemovalOrder) -> None:
    """Tell a row what the tombstone beside its segment says. The sweep removes what is still there."""
    removal = known_removal(attempt.lane.plan, order)
    for rows in _unaware(attempt, object_key):
        rows.update(removal=removal)
    Removal.objects.filter(pk=removal.pk).update(finished_at=None)


def _unaware(attempt: Attempt, object_key: str) -> Stock:
    return Stock(
        Segment.objects.filter(attempt=attempt, object_key=object_key),
        Refusal.objects.filter(attempt=attempt, object_key=object_key, segment=None, path=""),
    ).kept()


def _remove_unknown(plan: Plan) -> None:
    """Remove segments of a wholly purged plan that no row knows: uploads that came to nothing.

    No row can come any more: uploads to such a plan are turned away.
    """
    for key in list(object_store().keys(f"{objects.plan_folder(plan)}/")):
        place = place_of(key)
        if place is not None and place.piece is not None and place.piece.kind == "zip":
            object_store().delete(key)
