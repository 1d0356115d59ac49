"""The life of an attempt: opened, heard, silent, sealed, superseded."""

from datetime import timedelta

import pytest
from django.conf import settings

from evalhub.protocol.messages import Heartbeat
from evalhub.web.errors import NotFoundError
from lanes.budget.models import SubAllocation
from lanes.budget.operations import money as budget_operations
from lanes.plans import queries, tasks
from lanes.plans.models import Attempt, AttemptState, Plan, PlanState
from lanes.plans.operations import attempts, lifecycle
from lanes.plans.operations.attempts import AttemptEndedError
from lanes.projects.models import Scope, Token
from tests.lanes import factories
from tests.lanes.budget.test_operations import make_call
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(minutes=10)
WORKING = Heartbeat(phase="refund-twice", done=1, total=3)


def states_of(plan: Plan) -> list[tuple[str, int, str]]:
    return [(a.lane.name, a.number, a.state) for a in queries.attempts_of(plan)]


def test_first_attempt_sets_the_plan_running() -> None:
    plan = factories.make_plan()

    attempt = factories.make_attempt(plan)

    assert (attempt.number, attempt.state) == (1, AttemptState.OPEN)
    assert (plan.state, plan.generation, plan.inputs_version) == (PlanState.RUNNING, 1, 2)
    assert plan.deadline_at == NOW + timedelta(minutes=240)


def test_begin_attempt_issues_a_token_for_it_alone() -> None:
    begun = attempts.begin_attempt(factories.make_plan(), "ordinary-1", at=NOW)

    token = Token.objects.get(attempt=begun.attempt.key)
    assert token.scopes == [Scope.LANE_WRITE]
    assert token.expires_at == NOW + timedelta(seconds=settings.LANE_TOKEN_SECONDS)
    assert begun.lane_token.secret.startswith("evl_")


@pytest.mark.parametrize("before", [AttemptState.OPEN, AttemptState.SILENT, AttemptState.SEALED])
def test_newer_attempt_supersedes_the_earlier(before: AttemptState) -> None:
    plan = factories.make_plan()
    first = factories.make_attempt(plan)
    ended_at = LATER if before is AttemptState.SEALED else None
    Attempt.objects.filter(pk=first.pk).update(state=before, ended_at=ended_at)
    other = factories.make_attempt(plan, "ordinary-2")

    second = factories.make_attempt(plan, at=LATER)

    assert states_of(plan) == [
        ("ordinary-1", 1, AttemptState.SUPERSEDED),
        ("ordinary-1", 2, AttemptState.OPEN),
        ("ordinary-2", 1, AttemptState.OPEN),
    ]
    first.refresh_from_db()
    assert first.ended_at == LATER
    assert queries.newest_attempts(plan) == {"ordinary-1": second, "ordinary-2": other}


def test_unknown_lane_is_named() -> None:
    plan = factories.make_plan()

    with pytest.raises(NotFoundError, match="no lane 'ordinary-9'"):
        factories.make_attempt(plan, "ordinary-9")

    assert Plan.objects.get().state == PlanState.REGISTERED


def test_concluded_plan_runs_again_with_a_new_deadline() -> None:
    plan = factories.make_plan()
    lifecycle.close_plan(plan, at=NOW)
    assert lifecycle.mark_concluded(plan, inputs_version=plan.inputs_version, at=NOW)

    factories.make_attempt(plan, at=LATER)

    plan.refresh_from_db()
    assert (plan.state, plan.generation, plan.closed_at) == (PlanState.RUNNING, 2, None)
    assert plan.deadline_at == LATER + timedelta(minutes=240)
    assert not queries.is_finished(plan, at=LATER)


def test_second_attempt_of_a_running_plan_keeps_its_deadline() -> None:
    plan = factories.make_plan()
    factories.make_attempt(plan)
    factories.make_attempt(plan, at=LATER)

    plan.refresh_from_db()
    assert (plan.generation, plan.deadline_at) == (1, NOW + timedelta(minutes=240))


def test_new_attempt_takes_released_money_up_again() -> None:
    project = factories.make_project()
    factories.make_pool(project)
    plan = factories.make_plan(project, lane={"pool": "judge-main", "budget_microusd": 1000})
    budget_operations.release(plan.digest, at=NOW)

    factories.make_attempt(plan)

    open_lanes = SubAllocation.objects.filter(released_at=None).values_list("lane", flat=True)
    assert list(open_lanes) == ["ordinary-1"]


def test_heartbeat_is_noted_and_answered() -> None:
    attempt = factories.make_attempt()

    answer = attempts.record_heartbeat(attempt, WORKING, at=LATER)

    assert (answer.do, answer.reason, answer.next_seconds) == (
        "continue",
        None,
        settings.HEARTBEAT_SECONDS,
    )
    attempt.refresh_from_db()
    assert (attempt.phase, attempt.done, attempt.total) == ("refund-twice", 1, 3)
    assert attempt.last_heard_at == LATER


def test_heartbeat_of_a_slow_clock_turns_nothing_back() -> None:
    soon = NOW + timedelta(minutes=4)
    attempt = factories.make_attempt(at=soon)

    attempts.record_heartbeat(attempt, WORKING, at=NOW)

    attempt.refresh_from_db()
    assert attempt.last_heard_at == soon


def test_heartbeat_alone_alters_no_conclusion() -> None:
    attempt = factories.make_attempt()
    before = Plan.objects.get().inputs_version

    attempts.record_heartbeat(attempt, WORKING, at=LATER)

    assert Plan.objects.get().inputs_version == before


def reason_of(attempt: Attempt) -> str | None:
    answer = attempts.record_heartbeat(attempt, WORKING, at=LATER)
    assert answer.do == ("continue" if answer.reason is None else "stop")
    return answer.reason


def test_superseded_attempt_is_told_to_stop() -> None:
    first = factories.make_attempt()
    factories.make_attempt(first.lane.plan)

    assert reason_of(first) == "superseded"


def test_closed_plan_tells_its_lanes_to_stop() -> None:
    attempt = factories.make_attempt()
    lifecycle.close_plan(attempt.lane.plan, at=NOW)

    assert reason_of(attempt) == "closed"


def test_old_head_of_a_pull_request_is_told_to_stop() -> None:
    attempt = factories.make_attempt()
    factories.make_plan(attempt.lane.plan.project, source={"head_sha": "d" * 40})

    assert reason_of(attempt) == "superseded"


def test_old_commit_of_a_branch_goes_on_for_the_baseline() -> None:
    push = {"event": "push", "ref": "refs/heads/main", "pull_request": None}
    plan = factories.make_plan(source=push)
    attempt = factories.make_attempt(plan)
    factories.make_plan(plan.project, source={**push, "head_sha": "d" * 40})

    assert Plan.objects.get(pk=plan.pk).superseded_at is not None
    assert reason_of(attempt) is None


def test_spent_budget_stops_the_lane_until_it_is_extended() -> None:
    project = factories.make_project()
    factories.make_pool(project)
    plan = factories.make_plan(project, lane={"pool": "judge-main", "budget_microusd": 1000})
    attempt = factories.make_attempt(plan)
    assert reason_of(attempt) is None
    budget_operations.settle([make_call(project, cost=1000, plan=plan.digest)], at=NOW)

    assert reason_of(attempt) == "budget"
    assert attempts.extend_budget(attempt, microusd=500, at=NOW).limit_microusd == 1500
    assert reason_of(attempt) is None


def test_ended_attempt_gets_no_more_money() -> None:
    attempt = factories.make_attempt()
    attempts.seal_attempt(attempt, at=LATER)

    with pytest.raises(AttemptEndedError, match="is sealed"):
        attempts.extend_budget(attempt, microusd=1, at=NOW)


def test_sweep_marks_who_missed_three_heartbeats() -> None:
    plan = factories.make_plan()
    silent = factories.make_attempt(plan)
    heard = factories.make_attempt(plan, "ordinary-2")
    edge = NOW + timedelta(seconds=3 * settings.HEARTBEAT_SECONDS)
    assert attempts.mark_silent_attempts(at=edge) == 0
    attempts.record_heartbeat(heard, WORKING, at=edge)

    assert attempts.mark_silent_attempts(at=edge + timedelta(seconds=1)) == 1

    silent.refresh_from_db()
    assert silent.state == AttemptState.SILENT
    assert silent.accepts_evidence


def test_silence_and_its_end_are_told_to_the_plan() -> None:
    attempt = factories.make_attempt()
    version = Plan.objects.get().inputs_version

    attempts.mark_silent_attempts(at=NOW + timedelta(hours=1))
    assert attempts.mark_silent_attempts(at=NOW + timedelta(hours=1)) == 0
    assert Plan.objects.get().inputs_version == version + 1

    attempts.touch_attempt(attempt, at=NOW + timedelta(hours=1))
    attempts.touch_attempt(attempt, at=NOW + timedelta(hours=1))
    assert Plan.objects.get().inputs_version == version + 2


def test_silent_attempt_that_speaks_is_open_again() -> None:
    attempt = factories.make_attempt()
    attempts.mark_silent_attempts(at=NOW + timedelta(hours=1))
    attempts.touch_attempt(attempt, at=NOW + timedelta(hours=1))

    attempt.refresh_from_db()
    assert attempt.state == AttemptState.OPEN


def test_sweep_task_looks_at_the_clock() -> None:
    # Opened at a fixed time that is long past by the real clock or in its future.
    attempt = factories.make_attempt()
    Attempt.objects.update(
        opened_at=NOW - timedelta(days=9000), last_heard_at=NOW - timedelta(days=9000)
    )

    tasks.sweep_attempts()

    attempt.refresh_from_db()
    assert attempt.state == AttemptState.SILENT


def test_sealing_twice_changes_nothing() -> None:
    attempt = factories.make_attempt()
    assert attempts.seal_attempt(attempt, at=LATER)
    version = Plan.objects.get().inputs_version

    assert attempts.seal_attempt(attempt, at=LATER + timedelta(minutes=1))

    assert attempt.ended_at == LATER
    assert Plan.objects.get().inputs_version == version


def test_superseded_attempt_is_not_sealed() -> None:
    first = factories.make_attempt()
    factories.make_attempt(first.lane.plan)

    assert not attempts.seal_attempt(first, at=LATER)

    assert first.state == AttemptState.SUPERSEDED


@pytest.mark.django_db(transaction=True)
def test_two_attempts_at_once_get_numbers_one_and_two() -> None:
    plan = factories.make_plan()

    outcomes = at_once([lambda: factories.make_attempt(Plan.objects.get(pk=plan.pk))] * 2)

    assert sorted(o.number for o in outcomes if isinstance(o, Attempt)) == [1, 2]
    assert [state for _, _, state in states_of(plan)] == [
        AttemptState.SUPERSEDED,
        AttemptState.OPEN,
    ]


@pytest.mark.django_db(transaction=True)
def test_sealing_and_replacing_at_once_both_end() -> None:
    plan = factories.make_plan()
    first = factories.make_attempt(plan)

    outcomes = at_once(
        [
            lambda: attempts.seal_attempt(queries.attempt_with_key(first.key), at=LATER),
            lambda: factories.make_attempt(Plan.objects.get(pk=plan.pk), at=LATER).number == 2,
        ]
    )

    assert not [o for o in outcomes if isinstance(o, Exception)]
    first.refresh_from_db()
    assert first.state == AttemptState.SUPERSEDED
