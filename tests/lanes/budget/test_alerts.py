"""A pool that runs out is told of at two shares of each of its limits, once, with honest numbers."""

from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import pytest

from lanes.budget import queries
from lanes.budget.models import Pool, SubAllocation
from lanes.budget.operations import alerts, money
from lanes.budget.operations.money import SettledCall, UnreadableCost
from lanes.budget.queries import PoolUse, Want
from lanes.projects.models import Notice, NoticeKind, NoticeState, Project
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

DOLLAR = 1_000_000
DAY = timedelta(days=1)


def make_pool(limit: int = 100, *, at: datetime = NOW) -> Pool:
    project = factories.make_project(at=at)
    return set_limit(project, limit, at=at)


def set_limit(project: Project, dollars: int, *, at: datetime = NOW) -> Pool:
    return money.put_pool(
        project, "judge-main", credential_fingerprint=None, limit_microusd=dollars * DOLLAR, at=at
    ).pool


def plan_digest(number: int) -> str:
    return f"sha256:{number:064x}"


def reserve(
    pool: Pool, dollars: int, *, plan: int = 1, lane: str = "a", at: datetime = NOW
) -> None:
    want = Want(pool.name, lane, dollars * DOLLAR)
    money.reserve(pool.project, plan_digest(plan), [want], at=at)


def spend(
    pool: Pool, dollars: float | None, *, plan: int = 1, lane: str = "a", at: datetime = NOW
) -> None:
    cost = None if dollars is None else round(dollars * DOLLAR)
    call = SettledCall(
        project=pool.project,
        plan=plan_digest(plan),
        lane=lane,
        attempt="att_0123456789",
        call_id=uuid4(),
        rubric="correctness",
        stage="llm",
        cost_microusd=cost,
        cost_source="provider" if cost is not None else "unknown",
    )
    money.settle([call], at=at)


def told(pool: Pool, prefix: str = "pool/") -> list[Notice]:
    notices = Notice.objects.filter(
        project=pool.project, kind=NoticeKind.BUDGET, key__startswith=prefix
    )
    return list(notices.order_by("pk"))


def test_pool_is_told_of_at_each_threshold_once() -> None:
    pool = make_pool(100)
    reserve(pool, 100)

    for dollars in (79, 1, 5, 14.99, 0.01, 3):
        spend(pool, dollars)
        alerts.watch_pools(at=NOW)
        alerts.watch_pools(at=NOW)

    first, second = told(pool)
    assert first.subject == "Judge money: 80 % of pool judge-main is spent"
    assert first.detail.startswith(
        "$80.00 of $100.00 are settled; lanes that still run hold another $20.00, and $0.00 are"
        " left for new plans. Plans that ask for more"
    )
    assert f"--project {pool.project.name} --limit-microusd N" in first.detail
    assert second.subject == "Judge money: all of pool judge-main is spent"
    assert second.detail.startswith("$100.00 of $100.00 are settled;")


def test_pool_that_leaps_over_both_thresholds_is_told_of_at_the_higher() -> None:
    pool = make_pool(10)
    reserve(pool, 10)
    spend(pool, 12.5)

    alerts.watch_pools(at=NOW)

    (notice,) = told(pool)
    assert notice.detail.startswith(
        "$12.50 of $10.00 are settled; lanes that still run hold another $0.00"
    )


def test_money_that_is_reserved_alone_is_no_alert() -> None:
    pool = make_pool(100)
    reserve(pool, 100)
    spend(pool, 10)

    alerts.watch_pools(at=NOW)

    assert told(pool) == []
    assert queries.pool_use(pool) == PoolUse(100 * DOLLAR, 10 * DOLLAR, 90 * DOLLAR, 0)


def test_higher_limit_ends_what_was_told_and_begins_anew() -> None:
    pool = make_pool(10)
    reserve(pool, 10)
    spend(pool, 9)
    alerts.watch_pools(at=NOW)

    set_limit(pool.project, 20, at=NOW + DAY)
    alerts.watch_pools(at=NOW + DAY)
    assert [notice.state for notice in told(pool)] == [NoticeState.RESOLVED]
    reserve(pool, 10, plan=2)
    spend(pool, 7.5, plan=2)
    alerts.watch_pools(at=NOW + DAY)
    # Back to a limit that it had before is another limit again, and is weighed at once.
    set_limit(pool.project, 10, at=NOW + 2 * DAY)

    states = [(n.subject.split()[2], n.state) for n in told(pool)]
    assert states == [("90", "RESOLVED"), ("82", "RESOLVED"), ("all", "OPEN")]


def test_same_limit_put_again_changes_nothing() -> None:
    pool = make_pool(10)
    reserve(pool, 10)
    spend(pool, 9)
    alerts.watch_pools(at=NOW)

    set_limit(pool.project, 10, at=NOW + DAY)
    spend(pool, 0.1)
    alerts.watch_pools(at=NOW + DAY)

    assert [notice.state for notice in told(pool)] == [NoticeState.OPEN]


def test_calls_of_unknown_cost_are_said_not_to_be_in_the_sum() -> None:
    pool = make_pool(10)
    reserve(pool, 5)
    reserve(pool, 5, lane="b")
    spend(pool, 8)
    spend(pool, None)
    spend(pool, None, lane="b")
    # Of no lane of this pool.
    spend(pool, None, lane="elsewhere")
    note = UnreadableCost(pool.project, plan_digest(1), "b", "att_0", "runs/x/judge.1.ndjson", 10)
    money.note_unknown_cost(note, at=NOW)

    alerts.watch_pools(at=NOW)

    (notice,) = told(pool)
    assert " 12 calls of unknown cost are not in this. " in notice.detail


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (2.9, None),
        (3, "At the pace of the last 3 days ($2.67 a day) it is empty within a day or two."),
        (4, "At the pace of the last 4 days ($2.00 a day) it is empty within a day or two."),
        (30, "At the pace of the last 7 days ($1.00 a day) it is empty in about 2 days."),
    ],
)
def test_forecast_is_said_where_there_are_days_enough(days: float, said: str | None) -> None:
    pool = make_pool(10)
    reserve(pool, 1, at=NOW)
    spend(pool, 1)
    later = NOW + days * DAY
    reserve(pool, 9, plan=2, at=later - timedelta(hours=1))
    spend(pool, 7, plan=2)

    alerts.watch_pools(at=later)

    (notice,) = told(pool)
    if said is None:
        assert "At the pace" not in notice.detail
    else:
        assert said in notice.detail


def test_forecast_is_not_said_when_nothing_was_spent_lately_or_nothing_is_left() -> None:
    idle, empty = make_pool(10), make_pool(10)
    for number, (pool, dollars) in enumerate([(idle, 9), (empty, 11)]):
        reserve(pool, 10, plan=number)
        spend(pool, dollars, plan=number)
        alerts.watch_pools(at=NOW + 30 * DAY)

        (notice,) = told(pool)
        assert "At the pace" not in notice.detail


@pytest.mark.parametrize("limit", [0, 1])
def test_pool_of_which_nothing_was_spent_is_not_told_of(limit: int) -> None:
    pool = make_pool(limit)
    reserve(pool, 0)
    spend(pool, 0)

    alerts.watch_pools(at=NOW)

    assert told(pool) == []


def test_lanes_that_spent_their_share_are_told_of_once_a_plan() -> None:
    pool = make_pool(100)
    for lane in ("a", "b", "c"):
        reserve(pool, 2, lane=lane)
    spend(pool, 2.01, lane="a")
    spend(pool, 2, lane="b")
    spend(pool, 1.99, lane="c")
    alerts.watch_pools(at=NOW)
    spend(pool, 0.01, lane="c")
    alerts.watch_pools(at=NOW)

    (notice,) = told(pool, "plan/")
    assert notice.subject == "Judge money: a lane of plan 000000000000 has none left"
    assert "told to stop: a ($2.01 of $2.00), b ($2.00 of $2.00). What" in notice.detail
    assert notice.path == f"/plans/{plan_digest(1)}/"


def test_more_money_for_the_last_stopped_lane_ends_it_and_arms_it_again() -> None:
    pool = make_pool(100)
    for lane in ("a", "b"):
        reserve(pool, 2, lane=lane)
        spend(pool, 2, lane=lane)
    alerts.watch_pools(at=NOW)

    money.extend(plan_digest(1), "a", microusd=DOLLAR, at=NOW)
    assert [notice.state for notice in told(pool, "plan/")] == [NoticeState.OPEN]
    money.extend(plan_digest(1), "b", microusd=DOLLAR, at=NOW)
    assert [notice.state for notice in told(pool, "plan/")] == [NoticeState.RESOLVED]
    spend(pool, 1, lane="a")
    alerts.watch_pools(at=NOW)

    assert [notice.state for notice in told(pool, "plan/")] == ["RESOLVED", "OPEN"]


def test_concluded_plan_ends_what_was_told_of_its_lanes() -> None:
    pool = make_pool(100)
    reserve(pool, 2)
    spend(pool, 2)
    alerts.watch_pools(at=NOW)

    money.release(plan_digest(1), at=NOW)
    spend(pool, 1)
    alerts.watch_pools(at=NOW)

    assert [notice.state for notice in told(pool, "plan/")] == [NoticeState.RESOLVED]


def test_sweep_looks_only_at_what_moved() -> None:
    pool = make_pool(100)
    reserve(pool, 2)
    assert queries.pools_to_weigh() == []
    spend(pool, 1)
    assert queries.pools_to_weigh() == [pool]

    alerts.watch_pools(at=NOW)

    assert queries.pools_to_weigh() == []
    assert SubAllocation.objects.get().weighed_microusd == DOLLAR


@pytest.mark.django_db(transaction=True)
def test_lanes_settling_and_sweeps_at_once_raise_one_notice() -> None:
    pool = make_pool(10)
    lanes = [f"lane-{number}" for number in range(4)]
    for lane in lanes:
        reserve(pool, 2, lane=lane)

    def settle_and_sweep(lane: str) -> None:
        for _ in range(5):
            spend(pool, 0.5, lane=lane)
            alerts.watch_pools(at=NOW)

    outcomes = at_once([partial(settle_and_sweep, lane) for lane in lanes])
    alerts.watch_pools(at=NOW)

    assert outcomes == [None] * 4
    assert len({notice.key for notice in told(pool)}) == len(told(pool))
    assert [n.key.rpartition("/")[2] for n in told(pool)] in (["80", "100"], ["100"])
    assert len(told(pool, "plan/")) == 1
    assert queries.pools_to_weigh() == []
