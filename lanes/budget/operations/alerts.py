"""Judge money: telling a project that it runs out, before it does.

What counts is settled money, which never comes back. What lanes that still run have reserved is told
beside it: it comes and goes with every plan, and would use up the one alert of a limit too early.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from urllib.parse import urlencode

from django.db import transaction
from django.db.models import F, Sum
from django.urls import reverse

from evalhub.web.templatetags.formatting import microusd
from lanes.budget import queries
from lanes.budget.models import Pool, SubAllocation
from lanes.budget.queries import PoolUse
from lanes.projects.models import Notice, NoticeKind, Project
from lanes.projects.operations import notices

THRESHOLDS = (80, 100)
"""At these shares of a pool's limit, in percent, its project is told, once each for one limit."""
# After an upgrade every lane of years may be new to the alerts; the next look goes on.
_WEIGHED_AT_ONCE = 1_000
_LONGEST_FORECAST_DAYS = 365


def watch_pools(*, at: datetime) -> None:
    """Tell of every pool and lane that spent more since the last look than it should. Safe to repeat."""
    for pool in queries.pools_to_weigh():
        weigh_pool(pool, at=at)


@transaction.atomic
def weigh_pool(pool: Pool, *, at: datetime) -> None:
    """Tell of a pool that reached a threshold, and of its lanes that have nothing left.

    Only those lanes are looked at of which more was spent since the last time. What is settled in
    this very moment is left to the next look, so that nobody waits for anybody.
    """
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    moved = queries.unweighed_allocations().filter(pool=pool).order_by("pk")
    seen = list(moved.select_for_update(no_key=True, skip_locked=True)[:_WEIGHED_AT_ONCE])
    _tell_of_pool(pool, at=at)
    for plan in sorted({row.plan for row in seen if _is_stopped(row)}):
        _tell_of_lanes(pool.project, plan, at=at)
    SubAllocation.objects.filter(pk__in=[row.pk for row in seen]).update(
        weighed_microusd=F("spent_microusd")
    )


def end_of_limit(pool: Pool, *, at: datetime) -> None:
    """Note that a pool has another limit: what was told of the one before has ended."""
    notices.resolve_notices(
        pool.project, kind=NoticeKind.BUDGET, key_prefix=_key_of_pool(pool), at=at
    )


def end_of_shortage(plan_digest: str, *, at: datetime) -> None:
    """Note that lanes of a plan got more money or need none: with the last it has ended."""
    if any(_is_stopped(row) for row in SubAllocation.objects.filter(plan=plan_digest)):
        return
    pools = Pool.objects.filter(allocations__plan=plan_digest)
    for project in Project.objects.filter(pools__in=pools).distinct():
        notices.resolve_notices(
            project, kind=NoticeKind.BUDGET, key_prefix=_key_of_plan(plan_digest), at=at
        )


def _tell_of_pool(pool: Pool, *, at: datetime) -> None:
    use = queries.pool_use(pool)
    reached = [
        share for share in THRESHOLDS if 100 * use.spent_microusd >= share * use.limit_microusd
    ]
    if not reached or not use.spent_microusd:
        return
    limit_set_at = pool.limit_set_at or pool.created_at
    key = f"{_key_of_pool(pool)}{limit_set_at:%Y%m%dT%H%M%S.%f}/{reached[-1]}"
    if Notice.objects.filter(project=pool.project, kind=NoticeKind.BUDGET, key=key).exists():
        # Looked up first: the sentences below take sums over the pool's history.
        return
    is_over = use.spent_microusd >= use.limit_microusd
    share = "all" if is_over else f"{100 * use.spent_microusd // use.limit_microusd} %"
    notices.raise_notice(
        pool.project,
        kind=NoticeKind.BUDGET,
        key=key,
        subject=f"Judge money: {share} of pool {pool.name} is spent",
        detail=" ".join(_pool_sentences(pool, use, at=at)),
        path=f"{reverse('plans')}?{urlencode({'project': pool.project.name})}",
        at=at,
    )


def _pool_sentences(pool: Pool, use: PoolUse, *, at: datetime) -> Iterator[str]:
    yield (
        f"{microusd(use.spent_microusd)} of {microusd(use.limit_microusd)} are settled;"
        f" lanes that still run hold another {microusd(use.reserved_microusd)}, and"
        f" {microusd(max(use.left_microusd, 0))} are left for new plans."
    )
    unknown = queries.unknown_calls_of_pool(pool)
    if unknown:
        calls = "1 call" if unknown == 1 else f"{unknown} calls"
        yield f"{calls} of unknown cost {'is' if unknown == 1 else 'are'} not in this."
    yield from _forecast(pool, use, at=at)
    yield (
        "Plans that ask for more than is left are refused. Raise the limit with"
        f" `evalhub pool put {pool.name} --project {pool.project.name} --limit-microusd N`,"
        " or plan less."
    )


def _forecast(pool: Pool, use: PoolUse, *, at: datetime) -> Iterator[str]:
    pace = queries.pace_of_pool(pool, at=at)
    unspent = use.limit_microusd - use.spent_microusd
    if pace is None or pace.microusd_per_day <= 0 or unspent <= 0:
        return
    days = round(unspent / pace.microusd_per_day)
    if days > _LONGEST_FORECAST_DAYS:
        when = "in more than a year"
    else:
        when = "within a day or two" if days <= 1 else f"in about {days} days"
    yield (
        f"At the pace of the last {round(pace.days)} days"
        f" ({microusd(round(pace.microusd_per_day))} a day) it is empty {when}."
    )


def _is_stopped(allocation: SubAllocation) -> bool:
    return allocation.released_at is None and allocation.spent_microusd >= allocation.limit_microusd


def _tell_of_lanes(project: Project, plan: str, *, at: datetime) -> None:
    """Tell of a plan's lanes that spent what they were given: once, until one of them gets more."""
    rows = SubAllocation.objects.filter(plan=plan)
    given: int = rows.aggregate(given=Sum("limit_microusd"))["given"]
    stopped = [row for row in rows.order_by("lane") if _is_stopped(row)]
    notices.raise_notice(
        project,
        kind=NoticeKind.BUDGET,
        key=f"{_key_of_plan(plan)}{given}",
        subject=f"Judge money: a lane of plan {plan.removeprefix('sha256:')[:12]} has none left",
        detail=(
            f"Spent what they were given and are told to stop: {_listed(stopped)}. What they have"
            " not judged by then stays without a score. The plan's page names lanes that follow."
            " Give lanes more in the plan (budget_microusd), or have them judge less."
        ),
        path=reverse("plan", args=[plan]),
        at=at,
    )


def _listed(stopped: Sequence[SubAllocation]) -> str:
    shown = ", ".join(
        f"{row.lane} ({microusd(row.spent_microusd)} of {microusd(row.limit_microusd)})"
        for row in stopped[:10]
    )
    more = len(stopped) - 10
    return f"{shown} and {more} more" if more > 0 else shown


def _key_of_pool(pool: Pool) -> str:
    return f"pool/{pool.name}/"


def _key_of_plan(plan_digest: str) -> str:
    return f"plan/{plan_digest}/"
