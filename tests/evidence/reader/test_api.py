"""Runs and transcripts over HTTP."""

from typing import Any

import pytest
from django.test import Client

from evidence.store.models import Run
from lanes.projects.models import Project, Scope
from tests.evidence.reader.factories import make_run, turn
from tests.lanes.factories import make_plan, make_project, make_token

pytestmark = pytest.mark.django_db


def answer(
    client: Client, address: str, project: Project, *scopes: Scope, status: int = 200
) -> Any:
    secret = make_token(project, *(scopes or (Scope.READ,))).secret
    response = client.get(f"/api/v1{address}", headers={"Authorization": f"Bearer {secret}"})
    assert response.status_code == status, response.content
    return response.json()


def test_runs_of_a_plan_come_with_scores_and_a_way_to_go_on(client: Client) -> None:
    plan = make_plan(epochs=2)
    first, second = (make_run(plan=plan, epoch=epoch) for epoch in (1, 2))

    page = answer(client, f"/runs?plan={plan.digest}&limit=1", plan.project)
    rest = answer(client, f"/runs?plan={plan.digest}&after={page['next']}", plan.project)

    assert [run["id"] for run in page["runs"] + rest["runs"]] == [first.pk, second.pk]
    assert page["runs"][0]["scores"] == {"latency_s": 12.4, "resolved": 1.0}
    assert rest["next"] is None


def test_run_carries_its_records_and_items(client: Client) -> None:
    run = make_run(outcome="failed", files={"a.txt": b"a"})

    found = answer(client, f"/runs/{run.pk}", run.plan.project)

    assert found["outcome"] == found["result"]["outcome"] == "failed"
    assert found["judge"][0]["value"] == 0.0
    assert found["failure"] is None
    assert {item["path"].rsplit("/", 1)[1] for item in found["items"]} == {
        "a%2Etxt",
        "judge.1.ndjson",
        "result.json",
        "transcript.1.ndjson",
    }


def test_transcript_comes_by_page(client: Client) -> None:
    run = make_run(turns=[turn(number, f"text {number}") for number in range(1, 8)])

    page = answer(client, f"/runs/{run.pk}/transcript?from=3&limit=2", run.plan.project)

    assert [(line["turn"], line["text"]) for line in page["turns"]] == [
        (3, "text 3"),
        (4, "text 4"),
    ]
    assert (page["total"], page["next"]) == (7, 5)


def addresses(run: Run) -> list[str]:
    return [f"/runs?plan={run.plan.digest}", f"/runs/{run.pk}", f"/runs/{run.pk}/transcript"]


def test_token_of_another_project_or_scope_is_refused(client: Client) -> None:
    run = make_run()

    for address in addresses(run):
        answer(client, address, make_project(), Scope.PROJECT_ADMIN, status=403)
        answer(client, address, run.plan.project, Scope.LANE_WRITE, status=403)
        assert client.get(f"/api/v1{address}").status_code == 401


@pytest.mark.parametrize(
    ("query", "names"),
    [("", "'plan'"), ("plan=x", "x"), ("plan={digest}&limit=501", "'limit'")],
)
def test_bad_parameter_is_named(client: Client, query: str, names: str) -> None:
    plan = make_plan()
    address = f"/runs?{query.format(digest=plan.digest)}"
    status = 404 if query == "plan=x" else 400

    problem = answer(client, address, plan.project, status=status)

    assert names in problem["detail"]
    assert problem["status"] == status
