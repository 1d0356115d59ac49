"""The endpoints that a lane speaks to."""

import json
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from evalhub.protocol.messages import HeartbeatAnswer, OpenedAttempt, TokenAnswer
from evalhub.protocol.plan import Plan as PlanDocument
from lanes.budget.models import SubAllocation
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts, cancelling
from lanes.projects.models import AuditEntry, Scope, Token
from tests.lanes import factories
from tests.lanes.wire import Answer, assert_problem, send

pytestmark = pytest.mark.django_db

HEARTBEAT = {"phase": "refund-twice", "done": 1, "total": 3}
WITH_MONEY = {"pool": "judge-main", "budget_microusd": 1000}


def make_plan_with_money(limit_microusd: int = 5000) -> Plan:
    project = factories.make_project()
    factories.make_pool(project, limit_microusd=limit_microusd)
    return factories.make_plan(project, lane=WITH_MONEY)


def open_attempt(plan: Plan, lane: str = "ordinary-1", body: object = None) -> Answer:
    secret = factories.make_token(plan.project, Scope.LANE_WRITE).secret
    return send("POST", f"/plans/{plan.digest}/lanes/{lane}/attempts", body, secret=secret)


def opened(plan: Plan) -> OpenedAttempt:
    answer = open_attempt(plan)
    assert answer.status == 201
    return OpenedAttempt.model_validate_json(json.dumps(answer.body))


def fresh_lane_token(attempt: Attempt) -> str:
    return factories.make_lane_token(attempt, at=timezone.now())


def test_opening_gives_all_that_a_lane_needs() -> None:
    plan = make_plan_with_money()

    answer = opened(plan)

    assert Attempt.objects.get().key == answer.attempt
    assert answer.expires_in == settings.LANE_TOKEN_SECONDS
    assert answer.salt == plan.project.salt
    assert answer.limits.segment_bytes == settings.SEGMENT_BYTES
    assert answer.limits.flush_seconds == settings.FLUSH_SECONDS
    assert answer.heartbeat_seconds == settings.HEARTBEAT_SECONDS
    assert answer.budget_microusd == 1000
    sliced = PlanDocument.model_validate_json(json.dumps(answer.plan_slice))
    assert [lane.name for lane in sliced.lanes] == ["ordinary-1"]
    path = f"/attempts/{answer.attempt}/heartbeat"
    assert send("POST", path, HEARTBEAT, secret=answer.lane_token).status == 200


def test_opening_without_judge_money_says_null() -> None:
    assert opened(factories.make_plan()).budget_microusd is None


def test_opening_audits_the_token_with_who_asked() -> None:
    opened(factories.make_plan())

    entry = AuditEntry.objects.filter(action="token.issue").latest("pk")
    assert entry.actor.startswith("token:evh_")
    assert Attempt.objects.get().key in json.dumps(entry.after)


def test_opening_an_unknown_lane_stores_nothing() -> None:
    plan = factories.make_plan()

    problem = assert_problem(open_attempt(plan, "ordinary-9"), 404, "not-found")

    assert "'ordinary-9'" in problem.detail
    assert Attempt.objects.count() == 0


def test_opening_takes_no_content() -> None:
    plan = factories.make_plan()

    assert_problem(open_attempt(plan, body={"jobs": 4}), 422, "invalid-document")
    assert_problem(open_attempt(plan, body=b"{"), 422, "invalid-document")
    assert Attempt.objects.count() == 0
    assert open_attempt(plan, body={}).status == 201


def test_opening_on_a_cancelled_plan_is_a_conflict() -> None:
    plan = factories.make_plan()
    cancelling.cancel_plan(
        Plan.objects.get(), reason="the pull request was closed", at=factories.NOW
    )

    assert_problem(open_attempt(plan), 409, "plan-cancelled")
    assert Attempt.objects.count() == Token.objects.filter(attempt__isnull=False).count() == 0


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PLAN_REGISTER])
def test_opening_takes_its_scope(scope: Scope) -> None:
    plan = factories.make_plan()
    secret = factories.make_token(plan.project, scope).secret

    answer = send("POST", f"/plans/{plan.digest}/lanes/ordinary-1/attempts", secret=secret)

    assert_problem(answer, 403, "forbidden")


def test_lane_token_opens_no_attempt() -> None:
    attempt = factories.make_attempt()

    answer = send(
        "POST",
        f"/plans/{attempt.lane.plan.digest}/lanes/ordinary-2/attempts",
        secret=fresh_lane_token(attempt),
    )

    assert_problem(answer, 403, "forbidden")
    assert Attempt.objects.count() == 1


def test_second_attempt_supersedes_and_stops_the_first() -> None:
    plan = factories.make_plan()
    first = opened(plan)
    opened(plan)

    answer = send(
        "POST", f"/attempts/{first.attempt}/heartbeat", HEARTBEAT, secret=first.lane_token
    )

    assert HeartbeatAnswer.model_validate_json(json.dumps(answer.body)) == HeartbeatAnswer(
        do="stop", reason="superseded", next_seconds=settings.HEARTBEAT_SECONDS
    )


# Renewal


def test_lane_token_renews_itself_also_after_the_end() -> None:
    attempt = factories.make_attempt()
    secret = fresh_lane_token(attempt)
    attempts.seal_attempt(attempt, at=factories.NOW)

    answer = send("POST", f"/attempts/{attempt.key}/token", secret=secret)

    assert answer.status == 201
    renewed = TokenAnswer.model_validate_json(json.dumps(answer.body))
    assert renewed.lane_token != secret
    assert renewed.expires_at > timezone.now() + timedelta(seconds=renewed.expires_in - 60)
    path = f"/attempts/{attempt.key}/heartbeat"
    assert send("POST", path, HEARTBEAT, secret=renewed.lane_token).status == 200


def test_run_token_renews_where_the_lane_token_expired() -> None:
    attempt = factories.make_attempt()
    long_ago = timezone.now() - timedelta(seconds=settings.LANE_TOKEN_SECONDS + 1)
    expired = factories.make_lane_token(attempt, at=long_ago)
    run_token = factories.make_token(attempt.lane.plan.project, Scope.LANE_WRITE).secret
    path = f"/attempts/{attempt.key}/token"

    assert_problem(send("POST", path, secret=expired), 401, "not-authenticated")
    assert send("POST", path, secret=run_token).status == 201


def test_tokens_of_others_renew_nothing() -> None:
    attempt = factories.make_attempt()
    other = factories.make_attempt(attempt.lane.plan, "ordinary-2")
    project = attempt.lane.plan.project
    path = f"/attempts/{attempt.key}/token"
    before = Token.objects.filter(attempt=attempt.key).count()

    for secret in [
        fresh_lane_token(other),
        factories.make_token(project, Scope.READ).secret,
        factories.make_token(factories.make_project()).secret,
    ]:
        assert_problem(send("POST", path, secret=secret), 403, "forbidden")

    assert Token.objects.filter(attempt=attempt.key).count() == before


def test_unknown_attempt_is_not_found() -> None:
    secret = factories.make_token(factories.make_project()).secret

    assert_problem(send("POST", "/attempts/att_unknown/token", secret=secret), 404, "not-found")


# Heartbeat


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"", ""),
        (b"{", ""),
        ({"phase": "x", "done": 1}, "/total"),
        ({**HEARTBEAT, "done": "1"}, "/done"),
        ({**HEARTBEAT, "done": -1}, "/done"),
        ({**HEARTBEAT, "done": 2**53}, "/done"),
        ({**HEARTBEAT, "phase": "a\nb"}, "/phase"),
        ({**HEARTBEAT, "phase": "x" * 501}, "/phase"),
        ({**HEARTBEAT, "mood": "good"}, "/mood"),
    ],
)
def test_heartbeat_that_is_none_is_named(body: object, pointer: str) -> None:
    attempt = factories.make_attempt()

    answer = send(
        "POST", f"/attempts/{attempt.key}/heartbeat", body, secret=fresh_lane_token(attempt)
    )

    problem = assert_problem(answer, 422, "invalid-document")
    assert problem.errors[0].pointer == pointer
    attempt.refresh_from_db()
    assert attempt.phase == ""


@pytest.mark.parametrize("call", ["heartbeat", "budget"])
def test_only_its_own_lane_token_speaks_for_an_attempt(call: str) -> None:
    attempt = factories.make_attempt()
    other = factories.make_attempt(attempt.lane.plan, "ordinary-2")
    admin = factories.make_token(attempt.lane.plan.project).secret

    for secret in [admin, fresh_lane_token(other)]:
        answer = send("POST", f"/attempts/{attempt.key}/{call}", HEARTBEAT, secret=secret)
        assert_problem(answer, 403, "forbidden")
    answer = send("POST", f"/attempts/{attempt.key}/{call}", HEARTBEAT)
    assert_problem(answer, 401, "not-authenticated")


# Budget


def test_budget_grows_out_of_the_pool() -> None:
    attempt = factories.make_attempt(make_plan_with_money(limit_microusd=2500))
    path = f"/attempts/{attempt.key}/budget"
    secret = fresh_lane_token(attempt)

    grown = send("POST", path, {"microusd": 500}, secret=secret)
    refused = send("POST", path, {"microusd": 1}, secret=secret)

    assert (grown.status, grown.body) == (200, {"budget_microusd": 1500})
    problem = assert_problem(refused, 409, "budget-exhausted")
    assert "0 micro-US-dollars left" in problem.detail
    assert SubAllocation.objects.get(lane="ordinary-1").limit_microusd == 1500


def test_budget_of_a_lane_without_pool_is_a_conflict() -> None:
    attempt = factories.make_attempt()

    answer = send(
        "POST",
        f"/attempts/{attempt.key}/budget",
        {"microusd": 1},
        secret=fresh_lane_token(attempt),
    )

    assert_problem(answer, 409, "budget-exhausted")


@pytest.mark.parametrize(
    "body", [b"", {}, {"microusd": 0}, {"microusd": "5"}, {"microusd": 1, "why": "more"}]
)
def test_budget_request_that_is_none_is_refused(body: object) -> None:
    attempt = factories.make_attempt(make_plan_with_money())

    answer = send("POST", f"/attempts/{attempt.key}/budget", body, secret=fresh_lane_token(attempt))

    assert_problem(answer, 422, "invalid-document")
    assert SubAllocation.objects.get(lane="ordinary-1").limit_microusd == 1000
