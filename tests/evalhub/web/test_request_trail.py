"""One id leads from the request to its answer, its lines in the log and the tasks it asks for."""

import json
import logging
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evalhub.tasks import trail
from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.logs import JsonFormatter
from tests.lanes import factories, wire

pytestmark = pytest.mark.django_db
Lines = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Return what has been logged by a logger, as the JSON log has it."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda name: [
        read
        for read in map(json.loads, stream.getvalue().splitlines())
        if read["logger"].startswith(name)
    ]
    root.removeHandler(handler)
    root.setLevel(before)


def test_each_answer_leaves_one_line(client: Client, lines: Lines) -> None:
    response = client.get(
        "/healthz?token=s3cret",
        headers={"X-Request-ID": "proxy-1", "X-Forwarded-For": "203.0.113.7\x1b"},
    )

    (line,) = lines("evalhub.access")
    assert response.headers["X-Request-ID"] == "proxy-1"
    assert line.pop("duration_ms") >= 0
    del line["time"]
    assert line == {
        "level": "INFO",
        "logger": "evalhub.access",
        "message": "answered",
        "request_id": "proxy-1",
        "method": "GET",
        "path": "/healthz",
        "status": 200,
        "remote": "127.0.0.1",
        "forwarded_for": "203.0.113.7\x1b",
    }


@pytest.mark.parametrize("claimed", ["", "a" * 65, "with space", "new\nline", "ümlaut", "a/b"])
def test_unsound_request_id_is_replaced(client: Client, claimed: str) -> None:
    first, second = (client.get("/healthz", headers={"X-Request-ID": claimed}) for _ in "ab")

    ids = {first.headers["X-Request-ID"], second.headers["X-Request-ID"]}
    assert len(ids) == 2
    assert all(len(made) == 32 and made.isalnum() for made in ids)


def test_line_names_person_and_plan(client: Client, lines: Lines) -> None:
    plan = factories.make_plan()
    client.force_login(factories.make_user("ada", project=plan.project))

    assert client.get(reverse("plan", args=[plan.digest])).status_code == 200

    (line,) = lines("evalhub.access")
    assert line["plan"] == plan.digest
    assert line["user"] == "ada"


def test_line_names_the_token_by_its_prefix(lines: Lines) -> None:
    issued = factories.make_token(factories.make_project())

    wire.send("GET", "/plans", secret=issued.secret)

    (line,) = lines("evalhub.access")
    assert line["token"] == issued.token.prefix
    assert issued.secret[8:] not in json.dumps(line)


def test_line_of_a_lane_names_its_plan(lines: Lines) -> None:
    attempt = factories.make_attempt(factories.make_plan(at=timezone.now()), at=timezone.now())

    secret = factories.make_lane_token(attempt, at=timezone.now())
    heartbeat = {"phase": "running", "done": 1, "total": 3}
    answer = wire.send("POST", f"/attempts/{attempt.key}/heartbeat", heartbeat, secret=secret)

    (line,) = lines("evalhub.access")
    assert (answer.status, line["plan"]) == (200, attempt.lane.plan.digest)


def test_link_that_signs_in_is_not_logged(client: Client, lines: Lines) -> None:
    for address in ("/sign-in/link/Zm9vYmFy/", "/sign-in/link/Zm9vYmFy"):
        client.get(address)

    text = json.dumps(lines(""))
    assert "/sign-in/link/***" in text
    assert "Zm9v" not in text


@pytest.mark.urls("tests.evalhub.web.urls")
@pytest.mark.parametrize("path", ["/api/v1/failing/unforeseen", "/failing/unforeseen"])
def test_failure_can_be_quoted(path: str, lines: Lines) -> None:
    client = Client(raise_request_exception=False)

    response = client.get(path, headers={"X-Request-ID": "r-500"})

    assert response.status_code == 500
    assert "quote request r-500" in response.content.decode()
    if path.startswith("/api/"):
        assert response.json()["request_id"] == "r-500"
    (failure,) = lines("django.request")
    assert failure["request_id"] == "r-500"
    assert "RuntimeError: a fault of ours" in failure["traceback"]


def test_refusal_carries_no_request_id_in_its_body(client: Client) -> None:
    assert client.get("/api/v1/nowhere").json()["request_id"] is None


@pytest.mark.django_db(transaction=True)
def test_task_is_known_by_the_request_that_asked_for_it(lines: Lines) -> None:
    seen = []

    def look() -> None:
        seen.append(dict(trail.current()))
        logging.getLogger("evalhub.looking").info("looked")

    real = app.tasks.pop(TaskName.SWEEP_CHECKS.value)
    app.task(name=TaskName.SWEEP_CHECKS.value)(look)
    try:
        with trail.trail(request_id="r-7", plan="sha256:1"):
            enqueue_on_commit(TaskName.SWEEP_CHECKS)
            after = dict(trail.current())
        enqueue_on_commit(TaskName.SWEEP_CHECKS)
    finally:
        app.tasks.pop(TaskName.SWEEP_CHECKS.value)
        app.tasks.register(real)

    asked, unasked = seen
    assert asked.pop("task_id") != unasked.pop("task_id")
    assert asked == {"task": "gates.sweep_checks", "request_id": "r-7"}
    assert unasked == {"task": "gates.sweep_checks"}
    assert after == {"request_id": "r-7", "plan": "sha256:1"}
    assert [line.get("request_id") for line in lines("evalhub.looking")] == ["r-7", None]
