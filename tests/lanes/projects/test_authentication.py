"""Bearer tokens: which are good, and what each opens."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from lanes.projects.models import Scope, Token
from lanes.projects.operations import tokens
from lanes.projects.queries import tokens as token_queries
from tests.lanes import factories
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db

PLANS = "/plans"


def test_absent_token_is_asked_for() -> None:
    answer = send("GET", PLANS)

    problem = assert_problem(answer, 401, "not-authenticated")
    assert "bearer token" in problem.detail
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer   ", "Token abc"])
def test_other_credentials_are_no_token(header: str, client: Client) -> None:
    response = client.get("/api/v1/plans", headers={"Authorization": header})

    assert response.status_code == 401
    assert response.json()["code"] == "not-authenticated"


def test_unknown_token_is_refused() -> None:
    problem = assert_problem(send("GET", PLANS, secret="evh_unknown"), 401, "not-authenticated")

    assert "evh_unknown" not in problem.detail


def test_expired_token_is_refused() -> None:
    project = factories.make_project()
    past = timezone.now() - timedelta(seconds=1)
    secret = factories.make_token(project, expires_at=past).secret

    problem = assert_problem(send("GET", PLANS, secret=secret), 401, "not-authenticated")

    assert "expired" in problem.detail


def test_revoked_token_is_refused() -> None:
    token, secret = factories.make_token(factories.make_project())
    tokens.revoke_token(token, at=factories.NOW)

    problem = assert_problem(send("GET", PLANS, secret=secret), 401, "not-authenticated")

    assert "revoked" in problem.detail


def test_scope_that_is_too_small_is_named() -> None:
    secret = factories.make_token(factories.make_project(), Scope.LANE_WRITE).secret

    problem = assert_problem(send("GET", PLANS, secret=secret), 403, "forbidden")

    assert "lane:write" in problem.detail
    assert problem.fix is not None
    assert "read" in problem.fix


def test_admin_token_has_every_scope() -> None:
    secret = factories.make_token(factories.make_project(), Scope.PROJECT_ADMIN).secret

    assert send("GET", PLANS, secret=secret).status == 200


def test_foreign_project_and_absent_project_look_alike() -> None:
    other = factories.make_project("acme/other")
    secret = factories.make_token(factories.make_project("acme/mine")).secret

    foreign = send("GET", f"/projects/{other.name}/policy", secret=secret)
    absent = send("GET", "/projects/acme/nowhere/policy", secret=secret)

    assert_problem(foreign, 403, "forbidden")
    assert foreign.body == absent.body


def test_lane_token_opens_no_other_door() -> None:
    attempt = factories.make_attempt()
    secret = factories.make_lane_token(attempt, at=timezone.now())

    problem = assert_problem(send("GET", PLANS, secret=secret), 403, "forbidden")

    assert attempt.key in problem.detail


def test_use_of_a_token_is_noted_at_most_every_ten_minutes() -> None:
    token, secret = factories.make_token(factories.make_project())
    send("GET", PLANS, secret=secret)
    first = Token.objects.get(pk=token.pk).last_used_at
    send("GET", PLANS, secret=secret)

    assert first is not None
    assert Token.objects.get(pk=token.pk).last_used_at == first


def test_secret_is_kept_as_a_digest_only() -> None:
    token, secret = factories.make_token(factories.make_project())

    row = Token.objects.filter(pk=token.pk).values().get()
    assert secret not in str(row)
    assert row["digest"] == token_queries.secret_digest(secret)
    assert secret.startswith(token.prefix)
