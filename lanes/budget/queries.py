"""Reads: what a plan has spent, what a pool has left."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.db.models import BigIntegerField, Case, Count, F, Q, Sum, When
from django.db.models.functions import Greatest

from lanes.budget.models import LedgerEntry, Pool, SubAllocation, UnknownCost
from lanes.projects.models import Project

# Of the two into which a sum is split.
_HALF = 2**32


class LaneSpend(NamedTuple):
    """What one lane may spend and has spent; `limit_microusd` is None without judge money."""

    lane: str
    limit_microusd: int | None
    spent_microusd: int
    unknown_calls: int
    """Calls whose cost nobody knows; they are counted and never taken as free."""
    conflicts: int
    """Calls that were claimed again at another cost."""
    calls: int
    """Every call, those of unknown cost too; with 0 of them nothing was spent because nothing was asked."""


class PlanSpend(NamedTuple):
    """What a plan has spent. With `unknown_calls` above 0, `spent_microusd` is a lower bound."""

    by_lane: list[LaneSpend]
    spent_microusd: int
    unknown_calls: int
    conflicts: int
    calls: int


class Want(NamedTuple):
    """Judge money that a lane of a plan asks of a pool."""

    pool: str
    lane: str
    microusd: int


class Shortfall(NamedTuple):
    """A pool that cannot cover what is asked of it; `left_microusd` is None if there is no pool."""

    pool: str
    left_microusd: int | None
    asked_microusd: int


def spend_of_plan(plan_digest: str) -> PlanSpend:
    """Return what each lane of a plan has spent, by lane name."""
    limits = dict(
        SubAllocation.objects.filter(plan=plan_digest).values_list("lane", "limit_microusd")
    )
    booked = {row.lane: row for row in _booked(plan_digest)}
    unreadable = dict(
        UnknownCost.objects.filter(plan=plan_digest).values_list("lane").annotate(Sum("lines"))
    )
    by_lane = []
    for lane in sorted({*limits, *booked, *unreadable}):
        row = booked.get(lane, _Booked(lane, 0, 0, 0, 0))
        lines = unreadable.get(lane, 0)
        by_lane.append(
            LaneSpend(
                lane,
                limits.get(lane),
                row.spent_microusd,
                row.unknown_calls + lines,
                row.conflicts,
                row.calls + lines,
            )
        )
    return PlanSpend(
        by_lane,
        sum(spend.spent_microusd for spend in by_lane),
        sum(spend.unknown_calls for spend in by_lane),
        sum(spend.conflicts for spend in by_lane),
        sum(spend.calls for spend in by_lane),
    )


def booked_of_lane(plan_digest: str, lane: str) -> int:
    """Return the sum of a lane's ledger."""
    entries = LedgerEntry.objects.filter(plan=plan_digest, lane=lane)
    sums = entries.aggregate(**_halves("cost_microusd"))
    return _whole(sums["high"], sums["low"])


def allocation_of(plan_digest: str, lane: str) -> SubAllocation | None:
    """Return what a lane was given; None without judge money."""
    return SubAllocation.objects.filter(plan=plan_digest, lane=lane).first()


def pool_left(pool: Pool) -> int:
    """Return what a pool can still give away; below 0 where its limit was lowered since.

    An open sub-allocation binds its whole limit, a released one only what was spent.
    """
    bound = Case(
        When(released_at__isnull=True, then=Greatest("limit_microusd", "spent_microusd")),
        default=F("spent_microusd"),
        output_field=BigIntegerField(),
    )
    rows = SubAllocation.objects.filter(pool=pool).annotate(bound=bound)
    given = rows.aggregate(**_halves("bound"))
    return pool.limit_microusd - _whole(given["high"], given["low"])


def shortfalls(project: Project, wants: Iterable[Want]) -> list[Shortfall]:
    """Return the pools that are not there or cannot cover what is asked of them, by name."""
    asked: dict[str, int] = {}
    for want in wants:
        asked[want.pool] = asked.get(want.pool, 0) + want.microusd
    pools = {pool.name: pool for pool in Pool.objects.filter(project=project, name__in=asked)}
    found = []
    for name, total in sorted(asked.items()):
        left = pool_left(pools[name]) if name in pools else None
        if left is None or left < total:
            found.append(Shortfall(name, left, total))
    return found


class _Booked(NamedTuple):
    lane: str
    spent_microusd: int
    unknown_calls: int
    conflicts: int
    calls: int


def _booked(plan_digest: str) -> Iterator[_Booked]:
    rows = (
        LedgerEntry.objects.filter(plan=plan_digest)
        .values_list("lane")
        .annotate(
            **_halves("cost_microusd"),
            unknown=Count("pk", filter=Q(cost_microusd__isnull=True)),
            conflicts=Count("pk", filter=Q(conflicting_microusd__isnull=False)),
            calls=Count("pk"),
        )
    )
    return (
        _Booked(lane, _whole(high, low), unknown, bad, calls)
        for lane, high, low, unknown, bad, calls in rows
    )


def _halves(field: str) -> dict[str, Sum]:
    """Return the sums of the upper and the lower 32 bits: SQLite fails when a sum leaves 64 bits."""
    return {
        "high": Sum(F(field) / _HALF, default=0),
        "low": Sum(F(field) % _HALF, default=0),
    }


def _whole(high: int, low: int) -> int:
    # PostgreSQL adds up big integers to a decimal number.
    return int(high) * _HALF + int(low)
