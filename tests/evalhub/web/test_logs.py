"""Every line of the log is one line, says what it belongs to, and holds no secret."""

import json
import logging
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from gunicorn.http.errors import InvalidHeader

from evalhub.tasks import trail
from evalhub.web.gunicorn_log import without_quoted_request
from evalhub.web.logs import Foreseen, JsonFormatter, LineFormatter, bind_plan, without_secrets

HOSTILE = "x\n2026-11-29 23:00:00.000Z CRITICAL evalhub: forged\x1b[31m\u2028\u202e\udcff\r"
SECRET = "evh_abcdefghijklmnopqrstuvwxyz0123456789_-ABCDE"


def line(formatter: logging.Formatter, message: str, **given: Any) -> str:
    """Return what a logger with this formatter writes for one call."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("evalhub.here")
    logger.addHandler(handler)
    logger.warning(message, *given.pop("args", ()), **given)
    logger.removeHandler(handler)
    return stream.getvalue()


def written(message: str, **given: Any) -> dict[str, Any]:
    """Return the object that the JSON formatter writes."""
    (text,) = line(JsonFormatter(), message, **given).splitlines()
    read: dict[str, Any] = json.loads(text)
    return read


def test_line_says_when_how_grave_who_and_what() -> None:
    text = line(LineFormatter(), "artifact %s missing", args=["a b"], extra={"digest": "sha256:1"})

    moment, rest = text.split(" ", 1)
    assert datetime.fromisoformat(moment).tzinfo is UTC
    assert rest == "WARNING evalhub.here: artifact a b missing digest=sha256:1\n"


def test_json_line_says_the_same() -> None:
    read = written("artifact %s missing", args=["a b"], extra={"digest": "sha256:1", "n": 3})

    assert read.pop("time").endswith("Z")
    assert read == {
        "level": "WARNING",
        "logger": "evalhub.here",
        "message": "artifact a b missing",
        "digest": "sha256:1",
        "n": 3,
    }


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_line_names_its_request_task_and_plan(formatter: logging.Formatter) -> None:
    with trail.trail(request_id="r-1"):
        bind_plan("sha256:7")
        with trail.trail(task="gates.conclude_plan"):
            inner = line(formatter, "inner")
        outer = line(formatter, "outer")
    after = line(formatter, "after")

    assert "gates.conclude_plan" in inner
    assert "r-1" not in inner
    assert "r-1" in outer
    assert "sha256:7" in outer
    assert "sha256:7" not in after


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_hostile_text_begins_no_line_and_holds_no_control_character(
    formatter: logging.Formatter,
) -> None:
    with trail.trail(user=HOSTILE):
        text = line(formatter, "%s", args=[HOSTILE], extra={"path": HOSTILE})

    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert text.count("forged") == 3


def test_hostile_value_is_no_second_field() -> None:
    text = line(LineFormatter(), "answered", extra={"path": '/x" status=200 user="admin'})

    assert text.endswith('answered path="/x\\" status=200 user=\\"admin"\n')


def test_traceback_is_set_in_line_by_line() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        text = line(LineFormatter(), "failed", exc_info=sys.exc_info())

    head, *rest = text.splitlines()
    assert head.endswith("failed")
    assert rest[0] == "  | Traceback (most recent call last):"
    assert all(part.startswith("  | ") and part.isprintable() for part in rest)
    assert "forged" in text


def test_traceback_is_one_field_of_json() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        read = written("failed", exc_info=sys.exc_info())

    assert read["message"] == "failed"
    assert read["traceback"].startswith("Traceback (most recent call last):\n")
    assert "forged" in read["traceback"]


@pytest.mark.parametrize(
    "secret_text",
    [
        SECRET,
        f"Authorization: Bearer {SECRET.replace('evh_', 'evl_')}",
        "/sign-in/link/Zm9vYmFyc2VjcmV0",
        "//sign-in/link//Zm9vYmFyc2VjcmV0?x=1",
        "/Sign-In/link/Zm9vYmFyc2VjcmV0/",
        "//sign-in//link//Zm9vYmFyc2VjcmV0/",
        "/sign-in%2Flink%2FZm9vYmFyc2VjcmV0%2F",
        "postgresql://evalhub:Zm9vYmFyc2VjcmV0@db/evalhub",
        "redis://:Zm9vYmFyc2VjcmV0@redis:6379/0",
        "/projects/acme/agent/notices.atom?before=3&key=Zm9vYmFyc2VjcmV0",
        "subject_token=eyJhbGciOiJSUzI1NiJ9.Zm9vYmFyc2VjcmV0.Zm9vYmFyc2VjcmV0",
    ],
)
@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_no_line_holds_a_secret(formatter: logging.Formatter, secret_text: str) -> None:
    error = RuntimeError(secret_text)
    text = line(formatter, secret_text, extra={"path": secret_text, "more": [secret_text]})
    text += line(formatter, "failed", exc_info=(RuntimeError, error, None))

    assert "Zm9v" not in text
    assert "ijklmn" not in text
    assert text.count("***") == 4


def test_address_that_signs_in_is_the_one_that_is_hidden() -> None:
    address = reverse("sign-in-link", args=["Zm9vYmFy"])

    assert without_secrets(address) == address.replace("Zm9vYmFy", "***")


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_request_for_a_foreign_host_is_one_warning(formatter: logging.Formatter) -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(Foreseen())
    logger = logging.getLogger("django.security")
    logger.addHandler(handler)
    try:
        answer = Client().get("/healthz", headers={"Host": "evil.test"})
    finally:
        logger.removeHandler(handler)

    (only,) = stream.getvalue().splitlines()
    assert answer.status_code == 400
    assert "WARNING" in only
    assert "evil.test" in only
    assert "Traceback" not in only


def test_what_strangers_cannot_cause_stays_an_error() -> None:
    record = logging.LogRecord("django.request", logging.ERROR, "", 0, "failed", None, None)

    assert Foreseen().filter(record)
    assert record.levelname == "ERROR"


def test_handler_of_the_settings_knows_what_is_foreseen() -> None:
    (handler,) = [h for h in logging.getLogger().handlers if isinstance(h.formatter, LineFormatter)]

    assert [type(one) for one in handler.filters] == [Foreseen]


@pytest.mark.parametrize(
    ("error", "told"),
    [(InvalidHeader("Authorization Bearer hunter2"), ": InvalidHeader"), (None, "")],
)
def test_request_that_cannot_be_parsed_is_told_without_what_it_held(
    error: BaseException | None, told: str
) -> None:
    message = (
        "Invalid request from ip=10.0.0.1: Invalid HTTP Header: 'Authorization Bearer\nhunter2'"
    )

    assert without_quoted_request(message, error) == f"Invalid request from ip=10.0.0.1{told}"


def test_other_warnings_of_gunicorn_stay_whole() -> None:
    assert without_quoted_request("Worker (pid:%s) was sent SIGKILL!", None).endswith("SIGKILL!")
