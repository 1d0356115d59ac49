"""Reads: what a plan has spent, what a pool has left."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    F,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    When,
)
from django.db.models.functions import Greatest

from lanes.budget.models import IS_NOT_FOLDED, LedgerEntry, Pool, SubAllocation, UnknownCost
from lanes.projects.models import Project

_PACE_OVER = timedelta(days=7)
# Of fewer days nobody can say what is usual.
_SHORTEST_HISTORY = timedelta(days=3)
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
    return pool.limit_microusd - _given(pool).bound_microusd


class _Given(NamedTuple):
    bound_microusd: int
    spent_microusd: int


def _given(pool: Pool) -> _Given:
    bound = Case(
        When(released_at__isnull=True, then=Greatest("limit_microusd", "spent_microusd")),
        default=F("spent_microusd"),
        output_field=BigIntegerField(),
    )
    rows = SubAllocation.objects.filter(IS_NOT_FOLDED, pool=pool).annotate(bound=bound)
    sums = rows.aggregate(
        **_halves("bound", prefix="bound_"),
        **_halves("spent_microusd", prefix="spent_"),
        **_halves("folded_microusd", prefix="folded_"),
    )
    bound_sum, spent, folded = (
        _whole(sums[f"{name}_high"], sums[f"{name}_low"]) for name in ("bound", "spent", "folded")
    )
    # Read last: what is folded in between counts twice, which gives away too little, not too much.
    in_pool = Pool.objects.values_list("folded_microusd", flat=True).get(pk=pool.pk)
    return _Given(in_pool + bound_sum - folded, in_pool + spent - folded)


def pools_to_fold() -> list[Pool]:
    """Return the pools whose own sum lacks what released sub-allocations have spent."""
    return list(Pool.objects.filter(Exists(unfolded_allocations().filter(pool=OuterRef("pk")))))


def unfolded_allocations() -> QuerySet[SubAllocation]:
    """Return the released sub-allocations that their pool's own sum does not tell wholly."""
    return SubAllocation.objects.filter(
        ~Q(spent_microusd=F("folded_microusd")), released_at__isnull=False
    )


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


class PoolUse(NamedTuple):
    """What became of a pool's limit: settled, held by lanes that still run, free."""

    limit_microusd: int
    spent_microusd: int
    reserved_microusd: int
    left_microusd: int
    """What new plans can have; below 0 where more was given away than the limit is now."""


class Pace(NamedTuple):
    """How fast a pool is spent, over the days that there were."""

    days: float
    microusd_per_day: float


def pools_to_weigh() -> list[Pool]:
    """Return the pools of which more was spent than the alerts have seen."""
    moved = Exists(unweighed_allocations().filter(pool=OuterRef("pk")))
    return list(Pool.objects.filter(moved).select_related("project").order_by("pk"))


def unweighed_allocations() -> QuerySet[SubAllocation]:
    """Return the sub-allocations of which more was spent than the alerts have seen."""
    return SubAllocation.objects.filter(~Q(spent_microusd=F("weighed_microusd")))


def pool_use(pool: Pool) -> PoolUse:
    """Return what became of a pool's limit. Calls of unknown cost are not in it."""
    bound, spent = _given(pool)
    return PoolUse(pool.limit_microusd, spent, bound - spent, pool.limit_microusd - bound)


def unknown_calls_of_pool(pool: Pool) -> int:
    """Return how many judge calls of a pool's lanes have a cost that nobody knows."""
    lane = SubAllocation.objects.filter(pool=pool, plan=OuterRef("plan"), lane=OuterRef("lane"))
    null = LedgerEntry.objects.filter(
        Exists(lane), project=pool.project_id, cost_microusd__isnull=True
    )
    unreadable = UnknownCost.objects.filter(Exists(lane), project=pool.project_id)
    lines: int = unreadable.aggregate(lines=Sum("lines", default=0))["lines"]
    return null.count() + lines


def pace_of_pool(pool: Pool, *, at: datetime) -> Pace | None:
    """Return how fast the plans of the last days spent a pool; None if there are too few days.

    A plan's money counts on the day of its registration, so a lane that still runs counts in part.
    """
    allocations = SubAllocation.objects.filter(pool=pool)
    first: datetime | None = allocations.aggregate(first=Min("opened_at"))["first"]
    if first is None or at - first < _SHORTEST_HISTORY:
        return None
    length = min(at - first, _PACE_OVER)
    sums = allocations.filter(opened_at__gte=at - length).aggregate(**_halves("spent_microusd"))
    days = length / timedelta(days=1)
    return Pace(days, _whole(sums["high"], sums["low"]) / days)


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


def _halves(field: str, *, prefix: str = "") -> dict[str, Sum]:
    """Return the sums of the upper and the lower 32 bits: SQLite fails when a sum leaves 64 bits."""
    return {
        f"{prefix}high": Sum(F(field) / _HALF, default=0),
        f"{prefix}low": Sum(F(field) % _HALF, default=0),
    }


def _whole(high: int, low: int) -> int:
    # PostgreSQL adds up big integers to a decimal number.
    return int(high) * _HALF + int(low)
