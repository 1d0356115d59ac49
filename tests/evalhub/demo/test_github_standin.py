"""The stand-in for GitHub's checks API, as a real process."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.programs.github import GitHubStandIn

pytestmark = pytest.mark.slow

SHA = "a" * 40
RUNS = "/check-runs"
LIST = f"/commits/{SHA}/check-runs"
_numbers = itertools.count(1)


class StandIn(NamedTuple):
    """A repository of the test's own at the stand-in, in good order."""

    server: GitHubStandIn
    repository: str
    client: httpx.Client

    @property
    def statuses(self) -> list[tuple[str, int | None]]:
        return [(one.method, one.status) for one in self.server.asked(self.repository)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as server:
        yield server


@pytest.fixture
def standin(server: GitHubStandIn) -> Iterator[StandIn]:
    server.fail()
    repository = f"acme/agent-{next(_numbers)}"
    with httpx.Client(
        base_url=f"{server.url}/repos/{repository}",
        headers={"Authorization": f"Bearer {server.token}"},
        trust_env=False,
        timeout=5,
    ) as client:
        yield StandIn(server, repository, client)


def body(**fields: Any) -> dict[str, Any]:
    return {"name": "evalhub / payments", "head_sha": SHA, **fields}


def test_check_goes_from_queued_to_completed(standin: StandIn) -> None:
    created = standin.client.post(RUNS, json=body(status="queued", external_id="e-1"))
    path = f"{RUNS}/{created.json()['id']}"
    standin.client.patch(path, json={"status": "in_progress"})
    output = {"title": "Regression", "summary": "It is worse.", "text": "Much."}
    done = standin.client.patch(path, json={"conclusion": "failure", "output": output})
    read = standin.client.get(path)

    assert created.status_code == 201
    assert (done.json()["status"], done.json()["conclusion"]) == ("completed", "failure")
    assert done.json()["completed_at"].endswith("Z")
    assert read.json() == done.json()
    assert read.json()["output"] == {**output, "annotations_count": 0}
    assert read.json()["external_id"] == "e-1"
    assert standin.statuses == [
        ("POST", 201),
        ("PATCH", 200),
        ("PATCH", 200),
        ("GET", 200),
    ]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"head_sha": "abc"}, "head_sha"),
        ({"name": ""}, "name"),
        ({"status": "done"}, "status"),
        ({"status": "completed"}, "status completed needs a conclusion"),
        ({"conclusion": "stale"}, "conclusion"),
        ({"completed_at": "2026-11-29T12:00:00Z"}, "completed_at needs a conclusion"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"details_url": "javascript:alert(1)"}, "details_url"),
        ({"output": {"summary": "no title"}}, "output.title"),
        ({"output": {"title": "t", "summary": "é" * 32_768}}, "summary exceeds"),
        ({"output": {"title": "t", "summary": "s", "annotations": [{}] * 51}}, "annotations"),
        ({"actions": [{"label": "x" * 21, "description": "d", "identifier": "i"}]}, "label"),
        ({"sumary": "s"}, "sumary"),
    ],
)
def test_wrong_field_is_refused_by_name(
    standin: StandIn, fields: dict[str, Any], named: str
) -> None:
    answer = standin.client.post(RUNS, json=body(**fields))

    assert answer.status_code == 422
    assert named in answer.json()["message"]
    assert standin.client.get(LIST).json()["total_count"] == 0


def test_summary_may_have_every_byte_of_its_limit(standin: StandIn) -> None:
    output = {"title": "t", "summary": "é" * 32_767 + "s"}

    assert standin.client.post(RUNS, json=body(output=output)).status_code == 201


def test_change_takes_no_commit(standin: StandIn) -> None:
    created = standin.client.post(RUNS, json=body()).json()

    answer = standin.client.patch(f"{RUNS}/{created['id']}", json={"head_sha": SHA})

    assert answer.status_code == 422
    assert '"head_sha" is not a permitted key' in answer.json()["message"]


def test_unknown_run_is_absent(standin: StandIn) -> None:
    assert standin.client.patch(f"{RUNS}/1", json={"status": "queued"}).status_code == 404


def test_token_is_required(standin: StandIn) -> None:
    answer = standin.client.post(RUNS, json=body(), headers={"Authorization": "Bearer wrong"})

    assert answer.status_code == 401
    assert standin.client.get(LIST).json()["total_count"] == 0


def test_equal_creates_make_two_runs_and_the_list_shows_the_newest(standin: StandIn) -> None:
    first, second = (
        standin.client.post(RUNS, json=body(external_id="same")).json()["id"] for _ in range(2)
    )
    other = standin.client.post(RUNS, json=body(name="other")).json()["id"]
    named = {"check_name": "evalhub / payments"}

    newest = standin.client.get(LIST, params=named).json()
    everything = standin.client.get(LIST, params={**named, "filter": "all"}).json()
    by_name = standin.client.get(LIST).json()

    assert [run["id"] for run in newest["check_runs"]] == [second]
    assert [run["id"] for run in everything["check_runs"]] == [second, first]
    assert [run["id"] for run in by_name["check_runs"]] == [other, second]
    assert standin.client.get(LIST, params={"app_id": "1"}).json()["total_count"] == 0


def test_answer_is_lost_after_the_commit(standin: StandIn) -> None:
    standin.server.fail(after_commit_timeout=1)

    with pytest.raises(httpx.TimeoutException):
        standin.client.post(RUNS, json=body(external_id="e-9"), timeout=0.3)
    found = standin.client.get(LIST).json()["check_runs"]
    again = standin.client.post(RUNS, json=body())

    assert [run["external_id"] for run in found] == ["e-9"]
    assert again.status_code == 201
    assert [status for _, status in standin.statuses] == [None, 200, 201]


def test_asked_for_faults_commit_nothing(standin: StandIn) -> None:
    standin.server.fail(status=503, times=2, retry_after=7)

    refused = [standin.client.post(RUNS, json=body()) for _ in range(2)]
    accepted = standin.client.post(RUNS, json=body())

    assert [answer.status_code for answer in refused] == [503, 503]
    assert refused[0].headers["Retry-After"] == "7"
    assert accepted.status_code == 201
    assert standin.client.get(LIST).json()["total_count"] == 1


def test_unknown_fault_is_refused(standin: StandIn) -> None:
    answer = standin.client.post(f"{standin.server.url}/_faults", json={"tiems": 2})

    assert answer.status_code == 422
    assert "times" in answer.json()["message"]
