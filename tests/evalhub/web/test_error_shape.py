"""Whatever goes wrong, the API answers in one shape and a page in words; nobody sees a traceback."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from evalhub.protocol.messages import Problem
from evalhub.web.errors import DatabaseUnavailableError, as_domain_error
from tests.evalhub.web.urls import FAILURES

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.evalhub.web.urls")]

STATUSES = {
    "domain": 418,
    "document": 422,
    "absent": 404,
    "throttled": 429,
    "unparseable": 400,
    "unforeseen": 500,
    "forbidden": 403,
    "unreachable": 503,
    "disconnected": 503,
    "full": 507,
    "cut": 408,
    "suspicious": 400,
}


@pytest.fixture
def client() -> Client:
    """Return a client that shows what a user sees: a 500, not the exception."""
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("failure", list(FAILURES))
def test_every_failure_of_the_api_has_one_shape(client: Client, failure: str) -> None:
    response = client.get(f"/api/v1/failing/{failure}")

    assert response.status_code == STATUSES[failure]
    assert response["Content-Type"] == "application/problem+json"
    problem = Problem.model_validate_json(response.content)
    assert set(response.json()) == set(Problem.model_fields)
    assert problem.status == response.status_code
    assert problem.detail.endswith(".")
    assert problem.type == f"/errors/{problem.code}"
    assert b"secret" not in response.content
    assert b"Traceback" not in response.content


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/api/v1/nowhere", 404, "not-found"),
        ("get", "/api/v1/plans", 401, None),
        ("delete", "/api/v1/plans", 401, None),
        ("delete", "/api/v1/schema/plan.json", 405, "method-not-allowed"),
        ("get", "/api/v1/schema/nothing.json", 404, "not-found"),
    ],
)
def test_refusals_before_a_view_have_the_same_shape(
    client: Client, method: str, path: str, status: int, code: str | None
) -> None:
    response = client.generic(method.upper(), path)

    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    assert set(response.json()) == set(Problem.model_fields)
    assert code in {None, response.json()["code"]}
    assert ("WWW-Authenticate" in response) == (status == 401)


def test_faults_of_a_document_are_all_named(client: Client) -> None:
    errors = client.get("/api/v1/failing/document").json()["errors"]

    assert [(error["pointer"], error["got"], error["expected"]) for error in errors] == [
        ("/a", "1", "2"),
        ("/b", "absent", "this field"),
    ]


@pytest.mark.parametrize("path", ["/api/v1/failing/unreachable", "/failing/unreachable"])
def test_answer_without_a_database_says_when_to_come_back_and_is_a_warning(
    client: Client, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get(path)

    assert response["Retry-After"] == "5"
    assert b"nothing of it was kept" in response.content
    [record] = [record for record in caplog.records if record.name == "evalhub.web.errors"]
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert "secret-host" in record.getMessage()


def test_page_without_a_database_does_not_ask_who_is_signed_in(
    client: Client, django_user_model: Any, django_assert_num_queries: Any
) -> None:
    client.force_login(django_user_model.objects.create_user("ada"))

    with django_assert_num_queries(0):
        response = client.get("/failing/unreachable")

    assert response.status_code == 503


@pytest.mark.parametrize("path", ["/api/v1/failing/unreachable", "/healthz"])
def test_database_that_goes_after_the_view_is_told_all_the_same(
    client: Client, settings: Settings, path: str
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.evalhub.web.urls.FailingMiddleware"]

    response = client.get(path)

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert b"nothing of it was kept" in response.content


def test_disk_of_the_database_that_is_full_is_told(client: Client) -> None:
    response = client.get("/failing/full")

    assert b"The disk of the database is full" in response.content
    assert response["Retry-After"] == "10"


def test_locked_database_passes_and_an_absent_table_is_a_fault_of_ours(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "db", timeout=0)) as first,
        closing(sqlite3.connect(tmp_path / "db", timeout=0)) as second,
    ):
        first.execute("BEGIN IMMEDIATE")
        locked = operational_error(second, "BEGIN IMMEDIATE")
        absent = operational_error(first, "SELECT * FROM nowhere")

    assert isinstance(as_domain_error(locked), DatabaseUnavailableError)
    assert as_domain_error(absent) is None


def operational_error(connection: sqlite3.Connection, statement: str) -> OperationalError:
    """Return the error of a statement as Django raises it."""
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute(statement)
    error = OperationalError(str(caught.value))
    error.__cause__ = caught.value
    return error


def test_throttled_answer_says_when_to_come_back(client: Client) -> None:
    assert client.get("/api/v1/failing/throttled")["Retry-After"] == "31"


@pytest.mark.parametrize("failure", list(FAILURES))
def test_every_failure_of_a_page_is_a_page(client: Client, failure: str) -> None:
    response = client.get(f"/failing/{failure}")

    assert response.status_code == STATUSES[failure]
    assert response["Content-Type"].startswith("text/html")
    text = response.content.decode()
    assert "<h1" in text
    assert "secret" not in text
    assert "Traceback" not in text


def test_page_of_a_foreseen_error_says_how_to_mend_it(client: Client) -> None:
    text = client.get("/failing/domain").content.decode()

    assert "This is a teapot." in text
    assert "Ask a kettle." in text
