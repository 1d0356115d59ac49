"""How long finished plans wait for their conclusion, and how many plans and attempts are open."""

from datetime import timedelta

import pytest
from django.db import connection

from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Plan, PlanState
from lanes.plans.operations import attempts, lifecycle
from tests.lanes import factories
from tests.lanes.factories import NOW

pytestmark = pytest.mark.django_db

A_MINUTE = timedelta(minutes=1)
FAR = NOW + timedelta(days=30)


def conclude(plan: Plan, *, minutes: int) -> None:
    plan.refresh_from_db()
    at = NOW + minutes * A_MINUTE
    assert lifecycle.mark_concluded(plan, inputs_version=plan.inputs_version, at=at)


def waited(*, minutes: int) -> float | None:
    """Return for how many minutes the oldest plan waits at a time."""
    at = NOW + minutes * A_MINUTE
    since = queries.unconcluded_since(at=at)
    return None if since is None else (at - since) / A_MINUTE


def seal_all(plan: Plan, *, minutes: int) -> None:
    for lane in ("ordinary-1", "ordinary-2"):
        attempt = factories.make_attempt(plan, lane)
        attempts.seal_attempt(attempt, at=NOW + minutes * A_MINUTE)


def test_plan_that_runs_waits_for_nothing() -> None:
    factories.make_attempt(factories.make_plan())

    assert waited(minutes=5) is None


def test_sealed_plan_waits_from_its_last_seal_also_past_its_deadline() -> None:
    plan = factories.make_plan()
    seal_all(plan, minutes=10)

    assert waited(minutes=14) == 4
    over = plan.deadline_at + A_MINUTE
    assert queries.unconcluded_since(at=over) == NOW + 10 * A_MINUTE


def test_closed_plan_waits_from_its_close_though_lanes_go_on() -> None:
    plan = factories.make_plan()
    attempt = factories.make_attempt(plan)
    lifecycle.close_plan(plan, at=NOW + 3 * A_MINUTE)
    attempts.touch_attempt(attempt, at=NOW + 9 * A_MINUTE)

    assert waited(minutes=10) == 7


def test_overdue_plan_waits_from_its_deadline() -> None:
    plan = factories.make_plan()

    assert queries.unconcluded_since(at=plan.deadline_at + A_MINUTE) == plan.deadline_at


def test_concluded_plan_waits_from_when_its_inputs_moved_first() -> None:
    plan = factories.make_plan()
    seal_all(plan, minutes=1)
    conclude(plan, minutes=2)
    assert waited(minutes=500) is None

    lifecycle.bump_inputs(plan, at=NOW + 400 * A_MINUTE, late=True)
    lifecycle.bump_inputs(plan, at=NOW + 440 * A_MINUTE, late=True)
    assert waited(minutes=450) == 50

    conclude(plan, minutes=451)
    assert waited(minutes=500) is None


def test_oldest_of_several_plans_is_told_and_only_gates_are_concluded() -> None:
    for minutes in (30, 10, 20):
        seal_all(factories.make_plan(), minutes=minutes)
    rejudge = factories.make_plan()
    seal_all(rejudge, minutes=1)
    Plan.objects.filter(pk=rejudge.pk).update(kind="rejudge")

    assert waited(minutes=40) == 30


def test_plan_that_moved_before_the_column_existed_waits_from_its_conclusion() -> None:
    plan = factories.make_plan()
    seal_all(plan, minutes=1)
    conclude(plan, minutes=2)
    lifecycle.bump_inputs(plan, at=NOW + 3 * A_MINUTE)
    Plan.objects.filter(pk=plan.pk).update(behind_since=None)

    assert waited(minutes=5) == 3


def test_open_plans_and_attempts_are_counted() -> None:
    assert queries.open_plan_counts() == {PlanState.REGISTERED: 0, PlanState.RUNNING: 0}
    factories.make_plan()
    running, concluded, cancelled = (factories.make_plan() for _ in "abc")
    silent = factories.make_attempt(running)
    factories.make_attempt(running, "ordinary-2")
    for plan in (concluded, cancelled):
        factories.make_attempt(plan)
    conclude(concluded, minutes=5)
    Plan.objects.filter(pk=cancelled.pk).update(cancelled_at=NOW)
    Attempt.objects.filter(pk=silent.pk).update(state=AttemptState.SILENT)

    assert queries.open_plan_counts() == {PlanState.REGISTERED: 1, PlanState.RUNNING: 1}
    assert queries.attempt_counts_of_open_plans() == {AttemptState.OPEN: 1, AttemptState.SILENT: 1}


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="a table of few rows is read whole on PostgreSQL"
)
def test_open_plans_are_found_by_an_index() -> None:
    assert "USING INDEX plan_behind_its_inputs" in queries.open_plans().explain()
