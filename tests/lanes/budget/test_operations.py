"""Judge money: reserved as a whole, settled once, never more than the pool has."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from lanes.budget import queries
from lanes.budget.models import LedgerEntry, Pool, SubAllocation
from lanes.budget.operations import money
from lanes.budget.operations.money import (
    BudgetExhaustedError,
    InvalidPoolError,
    PoolCannotCoverError,
    SettledCall,
    UnreadableCost,
)
from lanes.budget.queries import LaneSpend, Shortfall, Want
from lanes.projects.models import AuditEntry, Project
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

PLAN, OTHER_PLAN = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def make_call(
    project: Project,
    *,
    call_id: UUID | None = None,
    cost: int | None = 100,
    lane: str = "ordinary-1",
    plan: str = PLAN,
) -> SettledCall:
    return SettledCall(
        project=project,
        plan=plan,
        lane=lane,
        attempt="att_0123456789",
        call_id=call_id or uuid4(),
        rubric="correctness",
        stage="llm",
        cost_microusd=cost,
        cost_source="provider",
    )


def reserve_all(
    pool: Pool, *, plan: str = PLAN, lane: str = "ordinary-1", amount: int = 1000
) -> None:
    money.reserve(pool.project, plan, [Want(pool.name, lane, amount)], at=NOW)


def test_put_pool_creates_and_changes() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=10)
    changed = money.put_pool(
        project, pool.name, credential_fingerprint=PLAN, limit_microusd=20, at=NOW, actor="user:ada"
    )

    assert (changed.created, changed.pool.pk, changed.pool.limit_microusd) == (False, pool.pk, 20)
    entry = AuditEntry.objects.filter(action="pool.put").latest("pk")
    assert entry.actor == "user:ada"
    assert entry.before == {"limit_microusd": 10, "credential_fingerprint": None}


@pytest.mark.parametrize("name", ["Judge", "", "a/b", "x" * 65, "judge main"])
def test_put_pool_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(InvalidPoolError, match="lower-case letters"):
        factories.make_pool(factories.make_project(), name)


def test_reserve_binds_the_whole_limit() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1500)

    reserve_all(pool)

    assert queries.pool_left(pool) == 500
    assert type(queries.pool_left(pool)) is int


def test_reserve_gives_all_lanes_or_none() -> None:
    project = factories.make_project()
    factories.make_pool(project, "small", limit_microusd=10)
    factories.make_pool(project, "large", limit_microusd=10_000)
    wants = [
        Want("large", "lane-a", 100),
        Want("small", "lane-b", 8),
        Want("small", "lane-c", 8),
        Want("absent", "lane-d", 1),
    ]

    with pytest.raises(PoolCannotCoverError) as refusal:
        money.reserve(project, PLAN, wants, at=NOW)

    assert refusal.value.shortfalls == [Shortfall("absent", None, 1), Shortfall("small", 10, 16)]
    assert "'small' has 10" in refusal.value.detail
    assert "16 were asked for" in refusal.value.detail
    assert SubAllocation.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_two_plans_at_once_cannot_oversubscribe_a_pool() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1500)

    outcomes = at_once(
        [
            lambda: reserve_all(pool, plan=PLAN),
            lambda: reserve_all(pool, plan=OTHER_PLAN),
        ]
    )

    assert sum(isinstance(outcome, PoolCannotCoverError) for outcome in outcomes) == 1
    assert queries.pool_left(pool) == 500


def test_settling_the_same_call_again_changes_nothing() -> None:
    project = factories.make_project()
    reserve_all(factories.make_pool(project))
    call = make_call(project, cost=70)

    money.settle([call, call], at=NOW)
    money.settle([call], at=NOW + timedelta(minutes=1))

    assert LedgerEntry.objects.get().settled_at == NOW
    assert SubAllocation.objects.get().spent_microusd == 70
    spend = queries.spend_of_plan(PLAN)
    assert (spend.spent_microusd, spend.conflicts, spend.unknown_calls) == (70, 0, 0)


def test_another_cost_of_the_same_call_is_a_conflict() -> None:
    project = factories.make_project()
    call = make_call(project, cost=70)
    money.settle([call], at=NOW)
    money.settle([call._replace(cost_microusd=90)], at=NOW)
    money.settle([call._replace(cost_microusd=95)], at=NOW)

    entry = LedgerEntry.objects.get()
    assert (entry.cost_microusd, entry.conflicting_microusd) == (70, 90)
    assert queries.spend_of_plan(PLAN).by_lane == [LaneSpend("ordinary-1", None, 70, 0, 1, 1)]


def test_same_call_in_two_projects_is_two_calls() -> None:
    call = make_call(factories.make_project())

    money.settle([call, call._replace(project=factories.make_project())], at=NOW)

    assert LedgerEntry.objects.count() == 2


def test_unknown_cost_is_counted_and_never_free() -> None:
    project = factories.make_project()
    money.settle([make_call(project, cost=None), make_call(project, cost=5)], at=NOW)
    note = UnreadableCost(project, PLAN, "ordinary-2", "att_0123456789", "runs/a/b/1/judge.1", 3)
    money.note_unknown_cost(note, at=NOW)

    spend = queries.spend_of_plan(PLAN)
    assert spend.by_lane == [
        LaneSpend("ordinary-1", None, 5, 1, 0, 2),
        LaneSpend("ordinary-2", None, 0, 3, 0, 3),
    ]
    assert (spend.spent_microusd, spend.unknown_calls) == (5, 4)
    assert type(spend.spent_microusd) is int


def test_many_calls_settle_in_pieces() -> None:
    project = factories.make_project()
    reserve_all(factories.make_pool(project))

    money.settle([make_call(project, cost=1) for _ in range(1201)], at=NOW)

    assert SubAllocation.objects.get().spent_microusd == 1201


def test_sums_beyond_64_bits_are_added_up() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1000)
    reserve_all(pool)
    largest = 2**63 - 1

    money.settle([make_call(pool.project, cost=largest) for _ in range(3)], at=NOW)
    money.settle([make_call(pool.project, cost=7)], at=NOW)

    spend = queries.spend_of_plan(PLAN)
    assert (spend.spent_microusd, spend.calls) == (3 * largest + 7, 4)
    allocation = queries.allocation_of(PLAN, "ordinary-1")
    assert allocation is not None
    assert allocation.spent_microusd == largest
    assert queries.pool_left(pool) == 1000 - largest


def test_plan_without_a_call_has_spent_nothing_because_nothing_was_asked() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1000)
    reserve_all(pool)

    spend = queries.spend_of_plan(PLAN)

    assert (spend.by_lane, spend.calls) == ([LaneSpend("ordinary-1", 1000, 0, 0, 0, 0)], 0)


@pytest.mark.django_db(transaction=True)
def test_uploads_of_a_lane_at_once_add_up() -> None:
    project = factories.make_project()
    reserve_all(factories.make_pool(project))
    shared = make_call(project, cost=3)

    outcomes = at_once(
        [
            lambda: money.settle([shared, *(make_call(project, cost=1) for _ in range(50))], at=NOW)
            for _ in range(4)
        ]
    )

    assert outcomes == [None] * 4
    assert SubAllocation.objects.get().spent_microusd == 203
    assert LedgerEntry.objects.count() == 201


def test_extend_takes_from_the_pool() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1500)
    reserve_all(pool)

    assert money.extend(PLAN, "ordinary-1", microusd=500, at=NOW).limit_microusd == 1500
    assert queries.pool_left(pool) == 0


def test_extend_beyond_the_pool_says_what_is_left() -> None:
    pool = factories.make_pool(factories.make_project(), limit_microusd=1500)
    reserve_all(pool)

    with pytest.raises(BudgetExhaustedError, match="500 micro-US-dollars left; 501"):
        money.extend(PLAN, "ordinary-1", microusd=501, at=NOW)

    assert SubAllocation.objects.get().limit_microusd == 1000


def test_extend_without_judge_money_is_refused() -> None:
    with pytest.raises(BudgetExhaustedError, match="without judge money"):
        money.extend(PLAN, "ordinary-1", microusd=1, at=NOW)


def test_release_returns_what_was_not_spent() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=1000)
    reserve_all(pool)
    money.settle([make_call(project, cost=300)], at=NOW)

    money.release(PLAN, at=NOW)

    assert queries.pool_left(pool) == 700
    with pytest.raises(BudgetExhaustedError):
        money.extend(PLAN, "ordinary-1", microusd=1, at=NOW)


def test_reopening_reaches_no_further_than_the_pool() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=1000)
    reserve_all(pool)
    money.settle([make_call(project, cost=300)], at=NOW)
    money.release(PLAN, at=NOW)
    reserve_all(pool, plan=OTHER_PLAN, amount=500)

    money.reopen(PLAN, "ordinary-1")

    allocation = SubAllocation.objects.get(plan=PLAN)
    assert (allocation.limit_microusd, allocation.released_at) == (500, None)
    assert queries.pool_left(pool) == 0


def test_overspent_lane_binds_what_it_spent() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=1000)
    reserve_all(pool, amount=100)

    money.settle([make_call(project, cost=300)], at=NOW)

    assert queries.pool_left(pool) == 700
