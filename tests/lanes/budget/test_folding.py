"""Adding up what ended changes nothing that anybody asks of a pool."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from lanes.budget import queries
from lanes.budget.models import Pool, SubAllocation
from lanes.budget.operations import folding, money
from lanes.budget.operations.money import SettledCall
from lanes.budget.queries import Want
from lanes.projects.models import Project
from tests.lanes.factories import NOW, make_pool, make_project

PLANS = ("plan 1", "plan 2", "plan 3")
STEPS = st.tuples(
    st.sampled_from(["settle", "release", "reopen", "fold"]),
    st.sampled_from(PLANS),
    st.integers(0, 700),
)


def added_up(pool: Pool) -> tuple[int, int]:
    """Return what is left of a pool and what is spent, from all rows one by one."""
    rows = SubAllocation.objects.filter(pool=pool)
    spent = sum(row.spent_microusd for row in rows)
    bound = sum(
        row.spent_microusd if row.released_at else max(row.limit_microusd, row.spent_microusd)
        for row in rows
    )
    return pool.limit_microusd - bound, spent


def do(step: str, project: Project, plan: str, *, number: int, microusd: int) -> None:
    match step:
        case "settle":
            call = SettledCall(
                project,
                plan,
                "lane",
                "att",
                UUID(int=number),
                "resolved",
                "llm",
                microusd,
                "provider",
            )
            money.settle([call], at=NOW)
        case "release":
            money.release(plan, at=NOW)
        case "reopen":
            money.reopen(plan, "lane")
        case "fold":
            folding.fold_pools()


class TestFolding(TestCase):
    @settings(max_examples=40)
    @given(steps=st.lists(STEPS, max_size=15))
    def test_sums_are_those_of_all_rows(self, steps: list[tuple[str, str, int]]) -> None:
        project = make_project()
        pool = make_pool(project, limit_microusd=3_000)
        for plan in PLANS:
            money.reserve(project, plan, [Want(pool.name, "lane", 1_000)], at=NOW)

        for number, (step, plan, microusd) in enumerate(steps):
            do(step, project, plan, number=number, microusd=microusd)

            use = queries.pool_use(pool)
            assert (queries.pool_left(pool), use.spent_microusd) == added_up(pool)
            assert use.left_microusd == queries.pool_left(pool)

    def test_folding_takes_in_what_ended_once(self) -> None:
        project = make_project()
        pool = make_pool(project, limit_microusd=3_000)
        for plan in PLANS:
            money.reserve(project, plan, [Want(pool.name, "lane", 1_000)], at=NOW)
        do("settle", project, PLANS[0], number=1, microusd=10)
        do("settle", project, PLANS[1], number=2, microusd=20)
        money.release(PLANS[0], at=NOW)

        assert folding.fold_pools() == 1
        assert folding.fold_pools() == 0

        pool.refresh_from_db()
        assert pool.folded_microusd == 10

    def test_sum_beyond_a_column_is_left_to_the_rows(self) -> None:
        project = make_project()
        pool = make_pool(project)
        money.reserve(project, PLANS[0], [Want(pool.name, "lane", 1_000)], at=NOW)
        do("settle", project, PLANS[0], number=1, microusd=10)
        money.release(PLANS[0], at=NOW)
        Pool.objects.filter(pk=pool.pk).update(folded_microusd=2**63 - 5)

        assert folding.fold_pools() == 0

        assert queries.pool_use(pool).spent_microusd == 2**63 + 5
