"""The tasks end to end: from a closed plan to its check at GitHub, also when messages get lost."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone
from pytest_django import Settings

from evalhub.tasks.names import TaskName
from gates.checks import queries, tasks
from gates.checks.models import Check
from gates.decisions.models import Conclusion
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from lanes.plans.operations.cancelling import cancel_plan
from lanes.plans.queries import plans_to_conclude
from tests.gates.checks.factories import make_checked_project
from tests.lanes.factories import HEAD_SHA, make_attempt, make_plan, make_project
from tests.programs.github import GitHubStandIn

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def _plan() -> Plan:
    return make_plan(make_checked_project(), at=timezone.now())


def test_registration_and_first_attempt_reach_github(standin: GitHubStandIn) -> None:
    plan = _plan()
    (queued,) = standin.check_runs(plan.project.name, HEAD_SHA)

    make_attempt(plan, at=timezone.now())

    (running,) = standin.check_runs(plan.project.name, HEAD_SHA)
    assert (queued["status"], running["status"]) == ("queued", "in_progress")
    assert queued["id"] == running["id"]


def test_closed_plan_without_evidence_fails_at_github_at_once(standin: GitHubStandIn) -> None:
    plan = _plan()

    lifecycle.close_plan(plan, at=timezone.now())

    conclusion = Conclusion.objects.get(plan=plan)
    (run,) = standin.check_runs(plan.project.name, HEAD_SHA)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
    assert run["output"]["title"] == conclusion.title
    assert "`missing`" in run["output"]["text"]
    assert "`refund-twice/candidate/1`" in run["output"]["text"]
    check = queries.check_of_plan(plan)
    assert check is not None
    assert check.is_delivered


@pytest.mark.parametrize("is_message_lost", [False, True])
def test_cancelled_plan_is_shown_as_such_at_github_and_comes_to_rest(
    standin: GitHubStandIn, *, is_message_lost: bool
) -> None:
    plan = _plan()
    make_attempt(plan, at=timezone.now())
    if is_message_lost:
        moved = F("inputs_version") + 1
        Plan.objects.filter(pk=plan.pk).update(cancelled_at=timezone.now(), inputs_version=moved)
        tasks.sweep_conclusions()
    else:
        cancel_plan(plan, reason="the queue let it go", at=timezone.now())

    (run,) = standin.check_runs(plan.project.name, HEAD_SHA)
    assert (run["status"], run["conclusion"]) == ("completed", "cancelled")
    assert plans_to_conclude(at=timezone.now()) == []
    assert not Conclusion.objects.exists()


def test_concluding_twice_changes_nothing(standin: GitHubStandIn) -> None:
    plan = _plan()
    lifecycle.close_plan(plan, at=timezone.now())
    writes = standin.writes(plan.project.name)

    tasks.conclude_plan(plan_id=plan.pk)

    assert Conclusion.objects.filter(plan=plan).count() == 1
    assert standin.writes(plan.project.name) == writes


def test_request_for_an_unfinished_plan_concludes_nothing(standin: GitHubStandIn) -> None:
    plan = _plan()

    tasks.conclude_plan(plan_id=plan.pk)

    assert not Conclusion.objects.exists()
    assert queries.check_of_plan(plan) is not None


def test_sweeps_find_what_lost_messages_left_undone(standin: GitHubStandIn) -> None:
    plan = _plan()
    # As it is when no message of this plan was ever delivered.
    Check.objects.all().delete()
    Plan.objects.filter(pk=plan.pk).update(deadline_at=timezone.now() - timedelta(minutes=1))

    tasks.sweep_conclusions()

    check = queries.check_of_plan(plan)
    assert check is not None
    assert (check.status, check.conclusion, check.is_delivered) == ("completed", "failure", True)


def test_sweep_asks_for_a_check_that_was_never_asked_for(standin: GitHubStandIn) -> None:
    plan = _plan()
    Check.objects.all().delete()

    tasks.sweep_checks()

    check = queries.check_of_plan(plan)
    assert check is not None
    assert check.is_delivered


def test_sweep_delivers_what_is_due(standin: GitHubStandIn) -> None:
    standin.fail(status=503, times=1)
    plan = _plan()
    Check.objects.update(next_attempt_at=timezone.now() - timedelta(seconds=1))

    tasks.sweep_checks()

    check = queries.check_of_plan(plan)
    assert check is not None
    assert check.is_delivered
    assert len(standin.check_runs(plan.project.name, HEAD_SHA)) == 1


def test_without_credentials_the_conclusion_stands_and_the_check_waits(
    settings: Settings,
) -> None:
    assert settings.GITHUB_TOKEN is None
    plan = _plan()

    lifecycle.close_plan(plan, at=timezone.now())

    check = queries.check_of_plan(plan)
    assert check is not None
    assert (check.conclusion, check.last_error) == ("failure", queries.NO_CREDENTIALS)
    assert Conclusion.objects.filter(plan=plan).count() == 1


def test_plan_that_may_not_speak_gets_no_check(standin: GitHubStandIn) -> None:
    plan = make_plan(make_project(checks_for_unverified=False), at=timezone.now())

    lifecycle.close_plan(plan, at=timezone.now())

    assert Conclusion.objects.filter(plan=plan).count() == 1
    assert not Check.objects.exists()
    assert standin.asked(plan.project.name) == []


def test_task_names_are_what_the_rooms_below_ask_for() -> None:
    assert tasks.conclude_plan.name == TaskName.CONCLUDE_PLAN.value
    assert tasks.refresh_check.name == TaskName.REFRESH_CHECK.value
