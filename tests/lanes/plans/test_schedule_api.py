"""`/projects/<project>/schedules`: the nightlies that a project waits for."""

import pytest

from lanes.plans.models import ExpectedSchedule
from lanes.projects.models import Project, Scope
from tests.lanes import factories
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db

NIGHTLY = {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "grace_minutes": 90}


def make_project() -> tuple[Project, str]:
    project = factories.make_project()
    factories.make_suite(project)
    return project, f"/projects/{project.name}/schedules"


def test_maintainer_puts_reads_and_removes_a_schedule() -> None:
    project, path = make_project()
    secret = factories.make_token(project).secret

    created = send("PUT", f"{path}/support", NIGHTLY, secret=secret)
    changed = send("PUT", f"{path}/support", {"cron": "0 4 * * *"}, secret=secret)

    assert (created.status, created.body["grace_minutes"]) == (201, 90)
    assert created.body["next_due_at"].endswith(("T01:00:00Z", "T02:00:00Z"))
    assert created.body["last_seen_at"] is None
    assert (changed.status, changed.body["timezone"], changed.body["grace_minutes"]) == (
        200,
        "UTC",
        120,
    )
    reader = factories.make_token(project, Scope.READ).secret
    assert send("GET", f"{path}/support", secret=reader).body == changed.body
    assert send("GET", path, secret=reader).body == {"schedules": [changed.body]}
    assert send("DELETE", f"{path}/support", secret=secret).status == 204
    assert send("GET", path, secret=reader).body == {"schedules": []}
    assert_problem(send("DELETE", f"{path}/support", secret=secret), 404, "not-found")


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", "invalid-document", "JSON"),
        ({}, "invalid-document", "/cron"),
        ({"cron": 3}, "invalid-document", "/cron"),
        ({"cron": "0 3 * * *", "grace_minutes": -1}, "invalid-document", "/grace_minutes"),
        ({"cron": "0 3 * * *", "grace_minutes": 10**9}, "invalid-document", "/grace_minutes"),
        ({"cron": "0 3 * * *", "time_zone": "UTC"}, "invalid-document", "/time_zone"),
        ({"cron": "0 3 * *"}, "invalid-schedule", "five fields"),
        ({"cron": "* * * * *"}, "invalid-schedule", "at least 60 minutes"),
        ({"cron": "0 3 * * *", "timezone": "Berlin"}, "invalid-schedule", "IANA"),
        ({"cron": "0 3 * * *", "timezone": "../etc/passwd"}, "invalid-schedule", "IANA"),
    ],
)
def test_schedule_that_cannot_be_is_refused(body: object, code: str, said: str) -> None:
    project, path = make_project()
    secret = factories.make_token(project).secret

    problem = assert_problem(send("PUT", f"{path}/support", body, secret=secret), 422, code)

    assert said in problem.detail
    assert ExpectedSchedule.objects.count() == 0


def test_schedules_are_changed_by_maintainers_and_read_by_readers() -> None:
    project, path = make_project()
    for scopes in ([Scope.READ], [Scope.PLAN_REGISTER], [Scope.LANE_WRITE]):
        secret = factories.make_token(project, *scopes).secret
        assert_problem(send("PUT", f"{path}/support", NIGHTLY, secret=secret), 403, "forbidden")
        assert_problem(send("DELETE", f"{path}/support", secret=secret), 403, "forbidden")
    lane = factories.make_token(project, Scope.LANE_WRITE).secret
    assert_problem(send("GET", path, secret=lane), 403, "forbidden")
    stranger = factories.make_token(factories.make_project()).secret
    for method in ("GET", "PUT", "DELETE"):
        answer = send(method, f"{path}/support", NIGHTLY, secret=stranger)
        assert answer.status in {403, 404}
    assert send("GET", path).status == 401
