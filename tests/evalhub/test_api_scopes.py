"""Each endpoint of the API with each scope: who is let in and who is not.

The addresses come from the resolver, so that a new endpoint without a row here fails.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from lanes.projects.authentication import TokenAuthentication
from lanes.projects.models import Project, Scope
from lanes.projects.operations import tokens
from tests.evidence.factories import make_run
from tests.lanes import factories
from tests.lanes.wire import send

pytestmark = pytest.mark.django_db

LANE: frozenset[Scope] = frozenset()
"""Only the lane token of the attempt that the address names; no scope of a static token is enough."""
ADMIN = {Scope.PROJECT_ADMIN}
READ = ADMIN | {Scope.READ}
REGISTER = ADMIN | {Scope.PLAN_REGISTER}
FOLLOW = READ | REGISTER
WRITE = ADMIN | {Scope.LANE_WRITE}
DOCUMENT = ADMIN | {Scope.DOCUMENT_WRITE}

ALLOWED: dict[tuple[str, str], frozenset[Scope] | set[Scope]] = {
    ("projects/<project>/publishers", "GET"): ADMIN,
    ("projects/<project>/publishers", "POST"): ADMIN,
    ("projects/<project>/publishers/<number>", "GET"): ADMIN,
    ("projects/<project>/publishers/<number>", "DELETE"): ADMIN,
    ("projects/<project>/tokens", "GET"): ADMIN,
    ("projects/<project>/tokens", "POST"): ADMIN,
    ("projects/<project>/tokens/<number>", "GET"): ADMIN,
    ("projects/<project>/tokens/<number>", "DELETE"): ADMIN,
    ("projects/<project>/refusals", "GET"): ADMIN,
    ("projects/<project>/notices", "GET"): READ,
    ("projects/<project>/notices/<number>", "GET"): READ,
    ("projects/<project>/notices/<number>/acknowledge", "POST"): ADMIN,
    ("projects/<project>/channels", "GET"): ADMIN,
    ("projects/<project>/channels/<name>", "GET"): ADMIN,
    ("projects/<project>/channels/<name>", "PUT"): ADMIN,
    ("projects/<project>/channels/<name>", "DELETE"): ADMIN,
    ("projects/<project>/channels/<name>/test", "POST"): ADMIN,
    ("projects/<project>/pools/<name>", "PUT"): ADMIN,
    ("projects/<project>/suite", "GET"): FOLLOW,
    ("projects/<project>/suite", "PUT"): DOCUMENT,
    ("projects/<project>/policy", "GET"): FOLLOW,
    ("projects/<project>/policy", "PUT"): DOCUMENT,
    ("projects/<project>/schedules", "GET"): FOLLOW,
    ("projects/<project>/schedules/<suite>", "GET"): FOLLOW,
    ("projects/<project>/schedules/<suite>", "PUT"): ADMIN,
    ("projects/<project>/schedules/<suite>", "DELETE"): ADMIN,
    ("plans", "GET"): FOLLOW,
    ("plans", "POST"): REGISTER,
    ("plans/<digest>", "GET"): FOLLOW,
    ("plans/<digest>/probes", "GET"): FOLLOW,
    ("plans/<digest>/close", "POST"): REGISTER,
    ("plans/<digest>/reopen", "POST"): REGISTER,
    ("plans/<digest>/cancel", "POST"): REGISTER,
    ("plans/<digest>/lanes/<lane>/attempts", "POST"): WRITE,
    ("attempts/<key>/token", "POST"): WRITE,
    ("attempts/<key>/heartbeat", "POST"): LANE,
    ("attempts/<key>/budget", "POST"): LANE,
    ("attempts/<attempt>/segments/<seq>", "PUT"): LANE,
    ("attempts/<attempt>/seal", "POST"): LANE,
    ("projects/<owner>/<name>/imports", "POST"): ADMIN,
    ("projects/<owner>/<name>/storage", "GET"): READ,
    ("projects/<owner>/<name>/retention", "PUT"): ADMIN,
    ("plans/<digest>/pin", "PUT"): ADMIN,
    ("plans/<digest>/pin", "DELETE"): ADMIN,
    ("plans/<digest>/purges", "GET"): READ,
    ("plans/<digest>/purges", "POST"): ADMIN,
    ("runs", "GET"): READ,
    ("runs/<run_id>", "GET"): READ,
    ("runs/<run_id>/transcript", "GET"): READ,
    ("projects/<project>/baselines", "GET"): READ,
    ("projects/<project>/baselines", "POST"): ADMIN,
    ("plans/<digest>/conclusion", "GET"): FOLLOW,
    ("plans/<digest>/export", "GET"): ADMIN,
}

OPEN = {("schema/", "GET"), ("schema/<document>.json", "GET"), ("token", "POST")}
"""Without a token of ours: public forms, and the exchange, whose body is the credential."""


class Endpoint(NamedTuple):
    route: str
    method: str
    view: Any


def _endpoints() -> list[Endpoint]:
    return [
        Endpoint(route, method.upper(), view)
        for route, view in _views(get_resolver().url_patterns, "")
        for method in view.http_method_names
        if hasattr(view, method) and method != "options"
    ]


def _views(patterns: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for entry in patterns:
        place = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _views(entry.url_patterns, place)
        elif isinstance(entry, URLPattern) and place.startswith("api/v1/"):
            yield _untyped(place.removeprefix("api/v1/")), entry.callback.view_class  # type: ignore[attr-defined]


def _untyped(route: str) -> str:
    """Return a route without its converters: `<int:number>` is `<number>`."""
    parts = route.split("<")
    return "<".join([parts[0], *(part.split(":", 1)[-1] for part in parts[1:])])


class Place(NamedTuple):
    """A project with a plan, an attempt and a run, which the addresses name."""

    project: Project
    names: dict[str, str]

    def path(self, route: str) -> str:
        for name, value in self.names.items():
            route = route.replace(f"<{name}>", value)
        assert "<" not in route, f"{route} names something that this test does not make"
        return f"/{route}"


@pytest.fixture
def place() -> Place:
    now = timezone.now()
    project = factories.make_project(at=now)
    plan = factories.make_plan(project, at=now)
    attempt = factories.make_attempt(plan, at=now)
    run = make_run(attempt)
    owner, name = project.name.split("/")
    return Place(
        project,
        {
            "project": project.name,
            "owner": owner,
            "digest": plan.digest,
            "lane": "ordinary-1",
            "key": attempt.key,
            "attempt": attempt.key,
            "seq": "1",
            "run_id": str(run.pk),
            "number": "1",
            "suite": "support",
            # Of a project, of a channel and of a pool: the second and third take any name.
            "name": name,
        },
    )


def _ask(endpoint: tuple[str, str], place: Place, secret: str | None) -> int:
    """Return the status of a request without a body, and leave everything as it was."""
    route, method = endpoint
    query = f"?plan={place.names['digest']}" if route == "runs" else ""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    savepoint = transaction.savepoint()
    answer = Client(raise_request_exception=False).generic(
        method,
        f"/api/v1{place.path(route)}{query}",
        content_type="application/json",
        headers={"Content-Type": "application/json", **headers},
    )
    transaction.savepoint_rollback(savepoint)
    return answer.status_code


def test_every_endpoint_has_a_row() -> None:
    there = {(endpoint.route, endpoint.method) for endpoint in _endpoints()}

    assert there == ALLOWED.keys() | OPEN


def test_every_endpoint_with_a_row_reads_tokens() -> None:
    closed = [each for each in _endpoints() if (each.route, each.method) not in OPEN]

    assert closed
    for endpoint in closed:
        assert list(endpoint.view.authentication_classes) == [TokenAuthentication], endpoint


@pytest.mark.parametrize("scope", Scope)
def test_scope_opens_what_it_is_for_and_nothing_else(scope: Scope, place: Place) -> None:
    secret = factories.make_token(place.project, scope).secret

    opened = {endpoint for endpoint in ALLOWED if _ask(endpoint, place, secret) not in {401, 403}}

    assert opened == {endpoint for endpoint, allowed in ALLOWED.items() if scope in allowed}


def test_bad_tokens_open_nothing(place: Place) -> None:
    revoked = factories.make_token(place.project)
    tokens.revoke_token(revoked.token, at=timezone.now())
    expired = factories.make_token(place.project, expires_at=timezone.now() - timedelta(seconds=1))

    for secret in (None, "evh_unknown", revoked.secret, expired.secret):
        assert {_ask(endpoint, place, secret) for endpoint in ALLOWED} == {401}


def test_tokens_of_other_projects_open_nothing(place: Place) -> None:
    stranger = factories.make_token(factories.make_project()).secret
    other_lane = factories.make_lane_token(factories.make_attempt(at=timezone.now()))
    # These two name no project: they show, and take, what is the token's own.
    nameless = {("plans", "GET"), ("plans", "POST")}

    assert {_ask(endpoint, place, stranger) for endpoint in ALLOWED.keys() - nameless} == {403}
    assert {_ask(endpoint, place, other_lane) for endpoint in ALLOWED} == {403}
    assert send("GET", "/plans", secret=stranger).body["plans"] == []
    assert send("GET", f"/plans?project={place.project.name}", secret=stranger).status == 403


def test_lane_token_writes_to_its_attempt_alone(place: Place) -> None:
    attempt = place.names["attempt"]
    secret = factories.make_token(place.project, Scope.LANE_WRITE, attempt=attempt).secret

    opened = {endpoint for endpoint in ALLOWED if _ask(endpoint, place, secret) not in {401, 403}}

    # Its own plan it reads to know what is expected of it; renewing is how a late upload comes in.
    own = {("plans/<digest>", "GET"), ("attempts/<key>/token", "POST")}
    assert opened == own | {endpoint for endpoint, allowed in ALLOWED.items() if allowed == LANE}
