"""How many bytes each plan has: each segment is counted once, by a sweep, and taken off when it goes.

Not at intake: there, what a plan's segments have in common would be one more row to wait for.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest

from evidence.store.models import PlanStorage, Refusal, Segment, StoredClass
from lanes.plans.models import Plan

AT_ONCE = 2_000


class _Place(NamedTuple):
    """Where a segment is counted."""

    plan_id: int
    project_id: int
    stored_class: str


@dataclass
class _Sum:
    segments: int = 0
    size_bytes: int = 0
    last_received_at: datetime | None = None


def count_stored() -> int:
    """Count segments that were not counted yet, some at a time; return how many. Safe to repeat."""
    return _count_segments() + _count_refused()


def has_uncounted(plan: Plan) -> bool:
    """Return whether some segments of a plan are not counted yet."""
    return (
        uncounted_segments().filter(attempt__lane__plan=plan).exists()
        or uncounted_refusals().filter(plan=plan).exists()
    )


def uncounted_segments() -> QuerySet[Segment]:
    return Segment.objects.filter(is_counted=False)


def uncounted_refusals() -> QuerySet[Refusal]:
    """Return segments that were refused as a whole; the bytes of other refusals lie in a segment."""
    return Refusal.objects.filter(segment__isnull=True, is_counted=False)


@transaction.atomic
def _count_segments() -> int:
    # Locked: of two sweeps at once the second waits, and finds them counted.
    locked = uncounted_segments().select_for_update().order_by("pk")
    chosen = list(locked.values_list("pk", flat=True)[:AT_ONCE])
    rows = Segment.objects.filter(pk__in=chosen).values_list(
        *("attempt__lane__plan_id", "attempt__lane__plan__project_id", "segment_class"),
        *("size_bytes", "received_at"),
    )
    _add((_Place(*row[:3]), row[3], row[4]) for row in rows)
    return Segment.objects.filter(pk__in=chosen).update(is_counted=True)


@transaction.atomic
def _count_refused() -> int:
    locked = uncounted_refusals().select_for_update().order_by("pk")
    chosen = list(locked.values_list("pk", flat=True)[:AT_ONCE])
    rows = Refusal.objects.filter(pk__in=chosen).values_list(
        "plan_id", "plan__project_id", "size_bytes", "refused_at"
    )
    _add((_Place(*row[:2], StoredClass.REFUSED), row[2], row[3]) for row in rows)
    return Refusal.objects.filter(pk__in=chosen).update(is_counted=True)


def _add(rows: Iterable[tuple[_Place, int, datetime]]) -> None:
    sums: dict[_Place, _Sum] = defaultdict(_Sum)
    for place, size, at in rows:
        one = sums[place]
        one.segments += 1
        one.size_bytes += size
        one.last_received_at = max(at, one.last_received_at or at)
    # In one order everywhere, so that two do not wait for each other.
    for place, one in sorted(sums.items(), key=lambda pair: pair[0]):
        assert one.last_received_at is not None  # noqa: S101 - each has a row
        PlanStorage.objects.filter(pk=_storage(place, one.last_received_at).pk).update(
            segments=F("segments") + one.segments,
            size_bytes=F("size_bytes") + one.size_bytes,
            last_received_at=Greatest("last_received_at", one.last_received_at),
        )


def take_off(stored: Segment | Refusal) -> None:
    """Count a segment as removed. To be called in the transaction that notes that its bytes are gone."""
    kind = type(stored)
    was_counted = kind.objects.values_list("is_counted", flat=True).get(pk=stored.pk)
    plan = stored.attempt.lane.plan
    stored_class = stored.segment_class if isinstance(stored, Segment) else str(StoredClass.REFUSED)
    at = stored.received_at if isinstance(stored, Segment) else stored.refused_at
    storage = _storage(_Place(plan.pk, plan.project_id, stored_class), at)
    removed: dict[str, object] = {
        "removed_segments": F("removed_segments") + 1,
        "removed_bytes": F("removed_bytes") + stored.size_bytes,
    }
    if was_counted:
        # Not below nothing: a count that is off must not keep bytes from going.
        removed |= {
            "segments": Greatest(F("segments") - 1, 0),
            "size_bytes": Greatest(F("size_bytes") - stored.size_bytes, 0),
        }
    else:
        kind.objects.filter(pk=stored.pk).update(is_counted=True)
    PlanStorage.objects.filter(pk=storage.pk).update(**removed)


def _storage(place: _Place, at: datetime) -> PlanStorage:
    row, _ = PlanStorage.objects.get_or_create(
        plan_id=place.plan_id,
        stored_class=place.stored_class,
        defaults={"project_id": place.project_id, "last_received_at": at},
    )
    return row
