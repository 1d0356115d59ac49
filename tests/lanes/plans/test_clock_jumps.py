"""A clock that ran two hours ahead and was set back: nothing waits for a time that was never meant."""

import json
from datetime import timedelta

import pytest

from evalhub.protocol.messages import Heartbeat
from evalhub.tasks import operations as sweep_operations
from evalhub.tasks.clock_jumps import was_set_back
from evalhub.tasks.names import TaskName
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState
from lanes.plans.operations import attempts, clock_jumps, documents
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project, suite_document

pytestmark = pytest.mark.django_db

AHEAD = NOW + timedelta(hours=2)
BEAT = Heartbeat(phase="running", done=0, total=3)


def test_lane_that_is_heard_after_the_clock_was_set_back_is_heard_now() -> None:
    attempt = make_attempt()
    attempts.record_heartbeat(attempt, BEAT, at=AHEAD)

    attempts.record_heartbeat(attempt, BEAT, at=NOW)

    attempt.refresh_from_db()
    assert attempt.last_heard_at == NOW
    assert attempt.clock_ahead_until == AHEAD
    assert attempt.opened_at == NOW


def test_attempt_that_was_opened_ahead_goes_on_and_is_sealed() -> None:
    attempt = make_attempt(make_plan(at=AHEAD), at=AHEAD)

    attempts.record_heartbeat(attempt, BEAT, at=NOW)
    is_sealed = attempts.seal_attempt(attempt, at=NOW + timedelta(seconds=1))

    assert is_sealed
    attempt.refresh_from_db()
    assert attempt.opened_at == NOW
    assert attempt.last_heard_at == NOW + timedelta(seconds=1)


def test_late_request_takes_no_time_back() -> None:
    attempt = make_attempt()
    attempts.touch_attempt(attempt, at=NOW + timedelta(minutes=3))

    attempts.touch_attempt(attempt, at=NOW + timedelta(minutes=1))

    attempt.refresh_from_db()
    assert attempt.last_heard_at == NOW + timedelta(minutes=3)
    assert attempt.clock_ahead_until is None


def test_dead_lane_falls_silent_though_it_was_heard_in_the_future() -> None:
    attempt = make_attempt()
    attempts.touch_attempt(attempt, at=AHEAD)

    for seconds in (0, 100):
        attempts.mark_silent_attempts(at=NOW + timedelta(seconds=seconds))

    assert Attempt.objects.get(pk=attempt.pk).state == AttemptState.SILENT


def test_plans_of_the_future_come_back_in_their_order_with_their_deadlines() -> None:
    project = make_project()
    first, second = (
        make_plan(project, at=AHEAD + timedelta(minutes=minutes)) for minutes in (0, 10)
    )
    patience = second.deadline_at - second.registered_at
    at = NOW + timedelta(minutes=11)

    assert clock_jumps.bring_back_plans(at=at) == 2
    assert clock_jumps.bring_back_plans(at=at) == 0

    first.refresh_from_db()
    second.refresh_from_db()
    assert first.registered_at < second.registered_at == at
    assert second.deadline_at == at + patience


def test_newer_suite_is_current_though_the_clock_was_set_back() -> None:
    project = make_project()
    documents.put_suite(project, json.dumps(suite_document()).encode(), at=AHEAD)

    newer = documents.put_suite(project, json.dumps(suite_document(version="2")).encode(), at=NOW)

    assert queries.current_suite(project, "support") == newer


def test_sweep_knows_that_the_clock_was_set_back_until_it_was_done_again() -> None:
    name = TaskName.SWEEP_ATTEMPTS
    assert not was_set_back(name, at=NOW)
    sweep_operations.record_sweep(name, started_at=AHEAD, ended_at=AHEAD)

    assert was_set_back(name, at=NOW)
    assert not was_set_back(name, at=AHEAD)

    sweep_operations.record_sweep(name, started_at=NOW, ended_at=NOW)
    assert not was_set_back(name, at=NOW)
