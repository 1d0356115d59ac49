"""A client that speaks the wire to the server in this process, and what its answers must be."""

import json
from http import HTTPStatus
from typing import Any, NamedTuple

from django.test import Client

from evalhub.protocol.messages import Problem


class Answer(NamedTuple):
    status: int
    body: Any
    content_type: str
    headers: dict[str, str]


def send(
    method: str,
    path: str,
    body: object = None,
    *,
    secret: str | None = None,
    content_type: str = "application/json",
) -> Answer:
    """Send one request below /api/v1; `body` is sent as JSON unless it is bytes already."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    # Django's client leaves the type out where there is no body.
    headers = {"Content-Type": content_type}
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret}"
    response = Client(raise_request_exception=False).generic(
        method, f"/api/v1{path}", data, content_type=content_type, headers=headers
    )
    content = response.content
    return Answer(
        response.status_code,
        json.loads(content) if content else None,
        response.headers.get("Content-Type", ""),
        dict(response.headers.items()),
    )


def assert_problem(answer: Answer, status: int, code: str) -> Problem:
    """Check that an answer is problem+json with one sentence, and return it."""
    problem = Problem.model_validate_json(json.dumps(answer.body))
    assert (answer.status, problem.code) == (status, code), problem
    assert answer.content_type == "application/problem+json"
    assert problem.status == status
    assert problem.title == HTTPStatus(status).phrase
    assert problem.detail.endswith(".")
    assert "\n" not in problem.detail
    assert "Traceback" not in problem.detail
    return problem
