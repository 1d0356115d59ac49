"""Cancelling a plan, and opening a closed one again: what lanes, money, people and CI are told."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evalhub.protocol.messages import Heartbeat
from lanes.budget import queries as budget_queries
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Plan, PlanState
from lanes.plans.operations import attempts, cancelling, lifecycle, registration
from lanes.plans.operations.cancelling import PlanConcludedError
from lanes.plans.operations.lifecycle import NothingToReopenError, PlanCancelledError
from lanes.projects.models import AuditEntry, Role, Scope
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(minutes=10)
WHY = "pull request 12 was closed"
WITH_MONEY = {"pool": "judge-main", "budget_microusd": 1000}


def cancel(plan: Plan) -> bool:
    return cancelling.cancel_plan(plan, reason=WHY, actor="user:ada", at=LATER)


def conclude(plan: Plan) -> None:
    plan.refresh_from_db()
    assert lifecycle.mark_concluded(plan, inputs_version=plan.inputs_version, at=LATER)
    plan.refresh_from_db()


def reason_to_stop(attempt: Attempt) -> str | None:
    heartbeat = Heartbeat(phase="works", done=1, total=3)
    return attempts.record_heartbeat(attempt, heartbeat, at=LATER).reason


# Cancel


def test_cancel_ends_attempts_and_says_why() -> None:
    plan = factories.make_plan()
    first = factories.make_attempt(plan)
    second = factories.make_attempt(plan)
    sealed = factories.make_attempt(plan, "ordinary-2")
    attempts.seal_attempt(sealed, at=NOW)

    assert cancel(plan)

    assert (plan.cancelled_at, plan.cancelled_by, plan.cancel_reason) == (LATER, "user:ada", WHY)
    states = dict(Attempt.objects.values_list("key", "state"))
    assert states == {
        first.key: AttemptState.SUPERSEDED,
        second.key: AttemptState.CANCELLED,
        sealed.key: AttemptState.SEALED,
    }
    assert reason_to_stop(second) == "cancelled"
    entry = AuditEntry.objects.get(action="plan.cancel")
    assert (entry.actor, entry.subject, entry.after) == ("user:ada", plan.digest, {"reason": WHY})


def test_cancel_again_changes_nothing() -> None:
    plan = factories.make_plan()
    cancel(plan)
    version = plan.inputs_version

    assert not cancelling.cancel_plan(plan, reason="another", at=LATER + timedelta(hours=1))

    plan.refresh_from_db()
    assert (plan.cancelled_at, plan.cancel_reason, plan.inputs_version) == (LATER, WHY, version)
    assert AuditEntry.objects.filter(action="plan.cancel").count() == 1


def test_concluded_plan_is_not_cancelled_and_its_lanes_go_on() -> None:
    plan = factories.make_plan()
    attempt = factories.make_attempt(plan)
    conclude(plan)

    with pytest.raises(PlanConcludedError, match="nothing left to cancel"):
        cancel(plan)

    attempt.refresh_from_db()
    assert attempt.state == AttemptState.OPEN
    plan.refresh_from_db()
    assert plan.cancelled_at is None


def test_cancel_returns_unspent_money() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)
    plan = factories.make_plan(project, lane=WITH_MONEY)
    assert budget_queries.pool_left(pool) == 0

    cancel(plan)

    assert budget_queries.pool_left(pool) == 2000


def test_cancelled_plan_says_so_to_all_that_begins() -> None:
    plan = factories.make_plan()
    cancel(plan)

    for begin in (
        lambda: factories.make_attempt(plan),
        lambda: lifecycle.close_plan(plan, at=LATER),
        lambda: lifecycle.reopen_plan(plan, at=LATER),
    ):
        with pytest.raises(PlanCancelledError) as raised:
            begin()
        assert raised.value.detail == (
            f"Plan {plan.digest} was cancelled at 2026-11-29 12:10 UTC: {WHY}."
        )
        assert "evalhub plan build" in (raised.value.fix or "")


def test_cancelled_digest_is_not_registered_again() -> None:
    project = factories.make_project()
    document = factories.plan_document(project, policy_digest=factories.make_policy(project).digest)
    plan = factories.register(document, project=project)
    cancel(plan)
    token = factories.make_token(project, Scope.PLAN_REGISTER).token

    with pytest.raises(PlanCancelledError):
        registration.register_plan(json.dumps(document).encode(), token=token, at=LATER)


def test_cancelled_plan_comes_to_rest_until_something_arrives() -> None:
    plan = factories.make_plan()
    cancel(plan)
    assert queries.plans_to_conclude(at=LATER) == [plan]
    assert queries.unconcluded_since(at=plan.deadline_at + timedelta(days=1)) is None
    assert not queries.is_finished(plan, at=plan.deadline_at)

    assert lifecycle.settle_cancelled(plan, inputs_version=plan.inputs_version)
    assert queries.plans_to_conclude(at=plan.deadline_at) == []

    lifecycle.bump_inputs(plan, at=LATER)
    assert not lifecycle.settle_cancelled(plan, inputs_version=plan.inputs_version)
    assert queries.plans_to_conclude(at=LATER) == [plan]


# Open again


def test_reopened_plan_waits_with_a_new_deadline() -> None:
    plan = factories.make_plan()
    factories.make_attempt(plan)
    lifecycle.close_plan(plan, at=NOW)
    conclude(plan)

    lifecycle.reopen_plan(plan, actor="user:ada", at=LATER)

    assert (plan.state, plan.generation, plan.closed_at) == (PlanState.RUNNING, 2, None)
    assert plan.deadline_at == LATER + timedelta(minutes=240)
    assert not queries.is_finished(plan, at=LATER)
    assert AuditEntry.objects.get(action="plan.reopen").actor == "user:ada"


def test_reopened_plan_that_never_began_is_registered_or_runs_as_before() -> None:
    plan = factories.make_plan()
    lifecycle.close_plan(plan, at=NOW)

    lifecycle.reopen_plan(plan, at=LATER)

    assert (plan.state, plan.generation, plan.closed_at) == (PlanState.REGISTERED, 1, None)


def test_reopening_gives_lanes_at_work_their_money_again() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)
    plan = factories.make_plan(project, lane=WITH_MONEY)
    attempt = factories.make_attempt(plan)
    lifecycle.close_plan(plan, at=NOW)
    conclude(plan)
    assert budget_queries.pool_left(pool) == 2000

    lifecycle.reopen_plan(plan, at=LATER)

    assert budget_queries.pool_left(pool) == 1000
    assert reason_to_stop(attempt) is None


def test_plan_that_waits_is_left_as_it_is() -> None:
    plan = factories.make_plan()
    before = (plan.deadline_at, plan.inputs_version)

    lifecycle.reopen_plan(plan, at=LATER)

    plan.refresh_from_db()
    assert (plan.deadline_at, plan.inputs_version) == before
    assert not AuditEntry.objects.filter(action="plan.reopen").exists()


def test_sealed_plan_has_nothing_to_wait_for() -> None:
    plan = factories.make_plan()
    for lane in ("ordinary-1", "ordinary-2"):
        attempts.seal_attempt(factories.make_attempt(plan, lane), at=NOW)

    with pytest.raises(NothingToReopenError, match="is sealed"):
        lifecycle.reopen_plan(plan, at=LATER)


# By the API


def test_cancel_and_reopen_over_http() -> None:
    plan = factories.make_plan(at=timezone.now())
    secret = factories.make_token(plan.project, Scope.PLAN_REGISTER).secret
    address = f"/plans/{plan.digest}"
    send("POST", f"{address}/close", secret=secret)

    reopened = send("POST", f"{address}/reopen", secret=secret)
    cancelled = send("POST", f"{address}/cancel", {"reason": WHY}, secret=secret)

    assert (reopened.status, reopened.body["closed_at"]) == (200, None)
    assert (cancelled.status, cancelled.body["cancelled"]) == (200, True)
    assert cancelled.body["cancel_reason"] == WHY
    assert AuditEntry.objects.get(action="plan.cancel").actor.startswith("token:")
    assert_problem(send("POST", f"{address}/reopen", secret=secret), 409, "plan-cancelled")


@pytest.mark.parametrize("body", [None, {}, {"reason": ""}, {"reason": WHY, "at": "now"}])
def test_cancel_takes_a_reason(body: object) -> None:
    plan = factories.make_plan()
    secret = factories.make_token(plan.project, Scope.PLAN_REGISTER).secret

    answer = send("POST", f"/plans/{plan.digest}/cancel", body, secret=secret)

    assert_problem(answer, 422, "invalid-document")
    plan.refresh_from_db()
    assert plan.cancelled_at is None


@pytest.mark.parametrize("scope", [Scope.READ, Scope.LANE_WRITE])
@pytest.mark.parametrize("act", ["cancel", "reopen"])
def test_endings_take_their_scope(scope: Scope, act: str) -> None:
    plan = factories.make_plan()
    secret = factories.make_token(plan.project, scope).secret

    answer = send("POST", f"/plans/{plan.digest}/{act}", {"reason": WHY}, secret=secret)

    assert_problem(answer, 403, "forbidden")


# From the page


def test_maintainer_closes_reopens_and_cancels_from_the_page(client: Client) -> None:
    plan = factories.make_plan(at=timezone.now())
    client.force_login(factories.make_user("ada", project=plan.project, role=Role.MAINTAINER))
    page = reverse("plan", args=[plan.digest])

    for name in ("plan-close", "plan-reopen"):
        assert client.post(reverse(name, args=[plan.digest]), follow=True).redirect_chain == [
            (page, 302)
        ]
    refused = client.post(reverse("plan-cancel", args=[plan.digest]), {"reason": " "}, follow=True)
    assert "The plan was not cancelled" in refused.content.decode()
    client.post(reverse("plan-cancel", args=[plan.digest]), {"reason": WHY})

    shown = client.get(page).content.decode()
    assert f"Cancelled: {WHY}" in shown
    assert "user:ada cancelled it" in shown
    assert reverse("plan-cancel", args=[plan.digest]) not in shown
    assert list(AuditEntry.objects.filter(actor="user:ada").values_list("action", flat=True)) == [
        "plan.close",
        "plan.reopen",
        "plan.cancel",
    ]


@pytest.mark.parametrize(("role", "status"), [(Role.VIEWER, 403), (Role.TRIAGER, 403), (None, 404)])
@pytest.mark.parametrize("name", ["plan-close", "plan-reopen", "plan-cancel"])
def test_others_find_no_buttons_and_change_nothing(
    client: Client, role: Role | None, status: int, name: str
) -> None:
    plan = factories.make_plan()
    project = plan.project if role is not None else factories.make_project()
    client.force_login(factories.make_user(project=project, role=role or Role.MAINTAINER))

    assert client.post(reverse(name, args=[plan.digest]), {"reason": WHY}).status_code == status

    if role is not None:
        shown = client.get(reverse("plan", args=[plan.digest])).content.decode()
        assert reverse(name, args=[plan.digest]) not in shown
    plan.refresh_from_db()
    assert (plan.closed_at, plan.cancelled_at) == (None, None)
