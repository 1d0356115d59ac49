"""Writes: pools, reservations, the ledger.

Rows are locked in one order everywhere: pool, sub-allocation, and only then a lane, attempt or plan.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import BigIntegerField, QuerySet
from pydantic import TypeAdapter, ValidationError

from evalhub.protocol.scalars import Name
from evalhub.web.errors import DomainError
from lanes.budget import queries
from lanes.budget.models import LedgerEntry, Pool, SubAllocation, UnknownCost
from lanes.budget.operations import alerts
from lanes.budget.queries import Shortfall, Want
from lanes.projects.models import Project
from lanes.projects.operations import audit

# SQLite takes a bounded number of parameters in one statement.
_CALLS_AT_ONCE = 500
_MOST_OF_A_COLUMN = BigIntegerField.MAX_BIGINT
_NAME = TypeAdapter[str](Name)


class InvalidPoolError(DomainError):
    status = 422
    code = "invalid-pool"


class PoolCannotCoverError(DomainError):
    """Names each pool with what it has left and what was asked of it."""

    status = 422
    code = "pool_short"
    fix = "Raise the pool's limit, or ask for less."

    def __init__(self, shortfalls: Sequence[Shortfall]) -> None:
        self.shortfalls = list(shortfalls)
        super().__init__(" ".join(_shortfall_sentence(shortfall) for shortfall in shortfalls))


class BudgetExhaustedError(DomainError):
    status = 409
    code = "budget-exhausted"


class SettledCall(NamedTuple):
    """One judge call as a lane reports it; the cost is None when it is not known."""

    project: Project
    plan: str
    lane: str
    attempt: str
    call_id: UUID
    rubric: str
    stage: str
    cost_microusd: int | None
    cost_source: str


class UnreadableCost(NamedTuple):
    """Judge lines of one item whose cost cannot be read: broken lines, or a wrong digest."""

    project: Project
    plan: str
    lane: str
    attempt: str
    path: str
    lines: int


class StoredPool(NamedTuple):
    """A pool, and whether it was not there before."""

    pool: Pool
    created: bool


@transaction.atomic
def put_pool(
    project: Project,
    name: str,
    *,
    credential_fingerprint: str | None,
    limit_microusd: int,
    at: datetime,
    actor: str = audit.SYSTEM,
) -> StoredPool:
    """Create a pool or change it; what is already given away stays given.

    With another limit its alerts begin anew.

    Raises:
        InvalidPoolError: if the name is not a name of the wire.
    """
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidPoolError(f"The pool's name was {name!r}; expected {expected}.") from None
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    before = Pool.objects.filter(project=project, name=name).first()
    is_new_limit = before is None or before.limit_microusd != limit_microusd
    columns: dict[str, object] = {
        "credential_fingerprint": credential_fingerprint,
        "limit_microusd": limit_microusd,
    }
    if is_new_limit:
        columns["limit_set_at"] = at
    pool, created = Pool.objects.update_or_create(
        project=project,
        name=name,
        defaults=columns,
        create_defaults={**columns, "created_at": at},
    )
    if is_new_limit:
        alerts.end_of_limit(pool, at=at)
        alerts.weigh_pool(pool, at=at)
    audit.record_audit(
        project,
        actor=actor,
        action="pool.put",
        subject=name,
        before=_shown(before) if before is not None else None,
        after=_shown(pool),
        at=at,
    )
    return StoredPool(pool, created)


@transaction.atomic
def reserve(project: Project, plan_digest: str, wants: Sequence[Want], *, at: datetime) -> None:
    """Give each lane its sub-allocation, or none of them.

    Raises:
        PoolCannotCoverError: if a pool is not there or has less left than is asked of it.
    """
    pools = _locked_pools(project, {want.pool for want in wants})
    shortfalls = queries.shortfalls(project, wants)
    if shortfalls:
        raise PoolCannotCoverError(shortfalls)
    SubAllocation.objects.bulk_create(
        SubAllocation(
            pool=pools[want.pool],
            plan=plan_digest,
            lane=want.lane,
            limit_microusd=want.microusd,
            opened_at=at,
        )
        for want in wants
    )


@transaction.atomic
def settle(calls: Sequence[SettledCall], *, at: datetime) -> None:
    """Book judge calls, each once; a call that was booked at another cost is noted as a conflict.

    A lane without a sub-allocation is booked too: the money is spent whether or not it was planned.
    """
    lanes = sorted({(call.plan, call.lane) for call in calls})
    for plan, lane in lanes:
        # Held until the sums below are written, so that two uploads of a lane cannot miss each other.
        list(_allocations(plan, lane).select_for_update(no_key=True))
    for start in range(0, len(calls), _CALLS_AT_ONCE):
        _book(calls[start : start + _CALLS_AT_ONCE], at=at)
    for plan, lane in lanes:
        spent = queries.booked_of_lane(plan, lane)
        _allocations(plan, lane).update(spent_microusd=min(spent, _MOST_OF_A_COLUMN))


def note_unknown_cost(note: UnreadableCost, *, at: datetime) -> None:
    """Count judge lines whose cost cannot be read."""
    UnknownCost.objects.create(
        project=note.project,
        plan=note.plan,
        lane=note.lane,
        attempt=note.attempt,
        path=note.path,
        lines=note.lines,
        noted_at=at,
    )


@transaction.atomic
def extend(plan_digest: str, lane: str, *, microusd: int, at: datetime) -> SubAllocation:
    """Give a lane more money out of its pool.

    Raises:
        BudgetExhaustedError: if the lane has no pool, or the pool has less left.
    """
    found = queries.allocation_of(plan_digest, lane)
    if found is None:
        raise BudgetExhaustedError(
            f"Lane {lane!r} was planned without judge money; 0 micro-US-dollars are left.",
            fix="Give the lane a pool and a budget in the plan.",
        )
    pool = Pool.objects.select_for_update(no_key=True).get(pk=found.pool_id)
    allocation = SubAllocation.objects.select_for_update(no_key=True).get(pk=found.pk)
    left = max(queries.pool_left(pool), 0)
    if allocation.released_at is not None or left < microusd:
        raise BudgetExhaustedError(
            f"Pool {pool.name!r} has {left} micro-US-dollars left; {microusd} were asked for.",
            fix="Ask for at most what is left, or have the pool's limit raised.",
        )
    allocation.limit_microusd += microusd
    allocation.save(update_fields=["limit_microusd"])
    alerts.end_of_shortage(plan_digest, at=at)
    return allocation


@transaction.atomic
def release(plan_digest: str, *, at: datetime) -> None:
    """Return what a concluded plan's lanes did not spend to their pools."""
    if SubAllocation.objects.filter(plan=plan_digest, released_at__isnull=True).update(
        released_at=at
    ):
        alerts.end_of_shortage(plan_digest, at=at)


@transaction.atomic
def hold(plan_digest: str) -> None:
    """Lock a plan's sub-allocations ahead of the plan itself; see the order above."""
    rows = SubAllocation.objects.filter(plan=plan_digest).order_by("pk")
    list(rows.select_for_update(no_key=True))


@transaction.atomic
def reopen(plan_digest: str, lane: str) -> None:
    """Take a released sub-allocation up again for a new attempt, as far as the pool still reaches."""
    found = queries.allocation_of(plan_digest, lane)
    if found is None or found.released_at is None:
        return
    pool = Pool.objects.select_for_update(no_key=True).get(pk=found.pool_id)
    allocation = SubAllocation.objects.select_for_update(no_key=True).get(pk=found.pk)
    reach = allocation.spent_microusd + max(queries.pool_left(pool), 0)
    allocation.limit_microusd = min(allocation.limit_microusd, reach)
    allocation.released_at = None
    allocation.save(update_fields=["limit_microusd", "released_at"])


def _book(calls: Sequence[SettledCall], *, at: datetime) -> None:
    LedgerEntry.objects.bulk_create(
        (
            LedgerEntry(
                project=call.project,
                plan=call.plan,
                lane=call.lane,
                attempt=call.attempt,
                call_id=call.call_id,
                rubric=call.rubric,
                stage=call.stage,
                cost_microusd=call.cost_microusd,
                cost_source=call.cost_source,
                settled_at=at,
            )
            for call in calls
        ),
        ignore_conflicts=True,
    )
    booked = {
        (entry.project_id, entry.call_id): entry
        for entry in LedgerEntry.objects.filter(
            project__in={call.project for call in calls},
            call_id__in=[call.call_id for call in calls],
        )
    }
    for call in calls:
        entry = booked[call.project.pk, call.call_id]
        # Not knowing a cost contradicts nothing.
        if call.cost_microusd in {None, entry.cost_microusd}:
            continue
        entry_as_it_was = LedgerEntry.objects.filter(pk=entry.pk, conflicting_microusd__isnull=True)
        entry_as_it_was.update(conflicting_microusd=call.cost_microusd)


def _locked_pools(project: Project, names: Iterable[str]) -> dict[str, Pool]:
    pools = Pool.objects.filter(project=project, name__in=set(names)).order_by("pk")
    return {pool.name: pool for pool in pools.select_for_update(no_key=True)}


def _allocations(plan: str, lane: str) -> QuerySet[SubAllocation]:
    return SubAllocation.objects.filter(plan=plan, lane=lane)


def _shown(pool: Pool) -> dict[str, object]:
    return {
        "limit_microusd": pool.limit_microusd,
        "credential_fingerprint": pool.credential_fingerprint,
    }


def _shortfall_sentence(shortfall: Shortfall) -> str:
    if shortfall.left_microusd is None:
        return f"There is no pool {shortfall.pool!r}."
    return (
        f"Pool {shortfall.pool!r} has {shortfall.left_microusd} micro-US-dollars left;"
        f" {shortfall.asked_microusd} were asked for."
    )
