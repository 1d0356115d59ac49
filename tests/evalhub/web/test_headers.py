"""What every answer carries so that a hostile transcript stays text."""

import pytest
from django.test import Client

from evalhub.web.middleware import CONTENT_SECURITY_POLICY

pytestmark = pytest.mark.django_db

ANSWERS = [
    "/sign-in/",
    "/healthz",
    "/readyz",
    "/api/v1/schema/plan.json",
    "/api/v1/plans",
    "/nowhere",
]


@pytest.mark.parametrize("path", ANSWERS)
def test_every_answer_carries_the_security_headers(client: Client, path: str) -> None:
    response = client.get(path)

    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"


def test_policy_allows_no_foreign_and_no_inline_script() -> None:
    policy = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["base-uri"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


def test_unknown_host_is_refused(client: Client) -> None:
    assert client.get("/sign-in/", headers={"host": "evil.example"}).status_code == 400


def test_form_without_its_token_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)

    assert client.post("/sign-in/", {"username": "a", "password": "b"}).status_code == 403
