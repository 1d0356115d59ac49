"""When a plan is to be concluded, and when it runs again."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from lanes.budget import queries as budget_queries
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Plan, PlanState
from lanes.plans.operations import attempts, lifecycle
from lanes.projects.models import AuditEntry
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(minutes=10)
LANES = ("ordinary-1", "ordinary-2")


def seal_all(plan: Plan) -> None:
    for lane in LANES:
        attempts.seal_attempt(factories.make_attempt(plan, lane), at=LATER)


def conclude(plan: Plan) -> None:
    plan.refresh_from_db()
    assert lifecycle.mark_concluded(plan, inputs_version=plan.inputs_version, at=LATER)
    plan.refresh_from_db()


def to_conclude() -> list[Plan]:
    return queries.plans_to_conclude(at=LATER)


def test_plan_is_finished_when_all_required_lanes_are_sealed() -> None:
    plan = factories.make_plan()
    attempts.seal_attempt(factories.make_attempt(plan, "ordinary-1"), at=LATER)
    assert to_conclude() == []

    attempts.seal_attempt(factories.make_attempt(plan, "ordinary-2"), at=LATER)

    assert to_conclude() == [plan]


def test_new_attempt_of_a_sealed_lane_is_waited_for() -> None:
    plan = factories.make_plan()
    seal_all(plan)
    factories.make_attempt(plan, "ordinary-1")

    assert to_conclude() == []


def test_advisory_lane_is_not_waited_for() -> None:
    lanes = [
        factories.lane_document("main", "refunds", ["refund-late"]),
        factories.lane_document("extra", "orders", ["order-lookup"], kind="advisory"),
        factories.lane_document("rest", "refunds", ["refund-twice"]),
    ]
    plan = factories.make_plan(lanes=lanes)
    for name in ("main", "rest"):
        attempts.seal_attempt(factories.make_attempt(plan, name), at=LATER)

    assert to_conclude() == [plan]


def test_plan_of_advisory_lanes_waits_for_all_of_them() -> None:
    plan = factories.make_plan(lane={"kind": "advisory"})
    assert to_conclude() == []

    seal_all(plan)

    assert to_conclude() == [plan]


def test_deadline_ends_the_waiting() -> None:
    plan = factories.make_plan()

    assert queries.plans_to_conclude(at=plan.deadline_at - timedelta(seconds=1)) == []
    assert queries.plans_to_conclude(at=plan.deadline_at) == [plan]


def test_close_ends_the_waiting() -> None:
    plan = factories.make_plan()

    lifecycle.close_plan(plan, at=NOW, actor="user:ada")
    lifecycle.close_plan(plan, at=LATER, actor="user:bob")

    assert plan.closed_at == NOW
    assert to_conclude() == [plan]
    assert AuditEntry.objects.get(action="plan.close").actor == "user:ada"


def test_concluded_plan_is_left_alone_until_its_inputs_move() -> None:
    plan = factories.make_plan()
    seal_all(plan)
    conclude(plan)
    assert to_conclude() == []

    lifecycle.bump_inputs(plan, at=NOW)

    assert to_conclude() == [plan]
    plan.refresh_from_db()
    assert (plan.state, plan.generation) == (PlanState.CONCLUDED, 1)


def test_late_evidence_makes_a_concluded_plan_run_again() -> None:
    plan = factories.make_plan()
    seal_all(plan)
    conclude(plan)

    lifecycle.bump_inputs(plan, at=NOW, late=True)
    lifecycle.bump_inputs(plan, at=NOW, late=True)

    before = plan.inputs_version
    plan.refresh_from_db()
    assert (plan.state, plan.generation) == (PlanState.RUNNING, 2)
    assert plan.inputs_version == before + 2


def test_evidence_in_time_begins_no_generation() -> None:
    plan = factories.make_plan()
    factories.make_attempt(plan)

    lifecycle.bump_inputs(plan, at=NOW, late=True)

    plan.refresh_from_db()
    assert (plan.state, plan.generation) == (PlanState.RUNNING, 1)


def test_conclusion_on_inputs_that_moved_is_not_stored() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)
    plan = factories.make_plan(project, lane={"pool": "judge-main", "budget_microusd": 1000})
    seen = plan.inputs_version
    lifecycle.bump_inputs(plan, at=NOW)

    assert not lifecycle.mark_concluded(plan, inputs_version=seen, at=LATER)

    plan.refresh_from_db()
    assert (plan.state, plan.concluded_version, plan.concluded_at) == ("REGISTERED", 0, None)
    assert budget_queries.pool_left(pool) == 0


def test_conclusion_returns_unspent_money() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)
    plan = factories.make_plan(project, lane={"pool": "judge-main", "budget_microusd": 1000})

    conclude(plan)

    assert budget_queries.pool_left(pool) == 2000


def test_plans_come_newest_first_by_page() -> None:
    project, other = factories.make_project(), factories.make_project()
    # Three at one time: the key of the row decides.
    plans = [factories.make_plan(project) for _ in range(3)]
    newest = factories.make_plan(project, at=LATER)
    factories.make_plan(other)

    first_page = queries.plans_of([project], limit=2)
    second_page = queries.plans_of([project], before=first_page[-1], limit=2)

    assert first_page == [newest, plans[2]]
    assert second_page == [plans[1], plans[0]]
    assert queries.plans_of([project], before=second_page[-1], limit=2) == []


def test_plans_of_commit_share_suite_and_head() -> None:
    plan = factories.make_plan()
    again = factories.make_plan(plan.project, at=LATER)
    factories.make_plan(plan.project, source={"head_sha": "d" * 40})

    assert queries.plans_of_commit(plan.project, "support", factories.HEAD_SHA) == [plan, again]


@pytest.mark.django_db(transaction=True)
def test_last_lanes_sealed_at_once_have_the_plan_concluded() -> None:
    plan = factories.make_plan()
    keys = [factories.make_attempt(plan, lane).key for lane in LANES]

    def seal(key: str) -> Callable[[], bool]:
        return lambda: attempts.seal_attempt(queries.attempt_with_key(key), at=LATER)

    assert at_once([seal(key) for key in keys]) == [True, True]

    assert set(Attempt.objects.values_list("state", flat=True)) == {AttemptState.SEALED}
    assert queries.is_finished(plan, at=LATER)


def test_only_the_last_seal_asks_for_a_conclusion(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    plan = factories.make_plan()
    first, last = (factories.make_attempt(plan, lane) for lane in LANES)

    with django_capture_on_commit_callbacks() as asked:
        attempts.seal_attempt(first, at=LATER)
    assert asked == []
    with django_capture_on_commit_callbacks() as asked:
        attempts.seal_attempt(last, at=LATER)
    assert len(asked) == 1
