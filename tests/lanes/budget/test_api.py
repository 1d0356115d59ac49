"""`PUT /projects/<project>/pools/<name>`."""

import pytest

from lanes.budget.models import Pool
from lanes.projects.models import Scope
from tests.lanes import factories
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db

POOL = {"credential_fingerprint": None, "limit_microusd": 5_000_000}


def test_maintainer_creates_and_changes_a_pool() -> None:
    project = factories.make_project()
    secret = factories.make_token(project).secret
    path = f"/projects/{project.name}/pools/judge-main"

    created = send("PUT", path, POOL, secret=secret)
    changed = send("PUT", path, {"limit_microusd": 7}, secret=secret)

    assert (created.status, created.body["left_microusd"]) == (201, 5_000_000)
    assert (changed.status, changed.body["limit_microusd"]) == (200, 7)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        ({}, "/limit_microusd"),
        ({"limit_microusd": "5"}, "/limit_microusd"),
        ({"limit_microusd": -1}, "/limit_microusd"),
        ({"limit_microusd": 1.5}, "/limit_microusd"),
        ({"limit_microusd": 10**15 + 1}, "/limit_microusd"),
        ({"limit_microusd": 1, "currency": "EUR"}, "/currency"),
        ({"limit_microusd": 1, "credential_fingerprint": "abc"}, "/credential_fingerprint"),
    ],
)
def test_bad_bodies_are_named_and_nothing_is_stored(body: object, pointer: str) -> None:
    project = factories.make_project()
    secret = factories.make_token(project).secret

    answer = send("PUT", f"/projects/{project.name}/pools/judge-main", body, secret=secret)

    problem = assert_problem(answer, 422, "invalid-document")
    assert problem.errors[0].pointer == pointer
    assert Pool.objects.count() == 0


def test_bad_name_is_refused() -> None:
    project = factories.make_project()
    secret = factories.make_token(project).secret

    answer = send("PUT", f"/projects/{project.name}/pools/Judge", POOL, secret=secret)

    assert_problem(answer, 422, "invalid-pool")


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PLAN_REGISTER, Scope.LANE_WRITE])
def test_only_a_maintainer_puts_pools(scope: Scope) -> None:
    project = factories.make_project()
    secret = factories.make_token(project, scope).secret

    answer = send("PUT", f"/projects/{project.name}/pools/judge-main", POOL, secret=secret)

    assert_problem(answer, 403, "forbidden")
    assert Pool.objects.count() == 0


def test_other_methods_are_refused() -> None:
    project = factories.make_project()
    secret = factories.make_token(project).secret

    answer = send("DELETE", f"/projects/{project.name}/pools/judge-main", secret=secret)

    assert_problem(answer, 405, "method-not-allowed")
