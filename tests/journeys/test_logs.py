"""What all programs write while they run: JSON, line by line, with one id from a request to its task."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.programs.evalhub import Evalhub, Up
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey

STORY = """
from django.utils import timezone
from tests.lanes import factories

plan = factories.make_plan(at=timezone.now())
print(plan.digest, factories.make_token(plan.project).secret)
"""
# As root Celery warns of root, before it logs.
_QUIET = {"PYTHONWARNINGS": "ignore"}


def lines(log: Path) -> list[dict[str, Any]]:
    """Return every line of a log; each is one JSON object."""
    read = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in read), read
    return read


def ask_hostilely(port: int) -> None:
    """Send what no client of ours sends, byte by byte."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(
            b"GET /plans/%0a%7b%22level%22:%22CRITICAL%22%7d%1b[31m%e2%80%a8?token=s3cret HTTP/1.1\r\n"
            b"Host: localhost\r\nX-Request-ID: a b\x0bc\r\nX-Forwarded-For: \xff\x1b[2J\r\n"
            b"User-Agent: \x1b]8;;\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(12).startswith(b"HTTP/1.1 ")


def ask_unreadably(port: int, *header_lines: bytes) -> bytes:
    """Send a request with headers that are none; return how the answer begins."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"\r\n".join([b"GET / HTTP/1.1", *header_lines, b"", b""]))
        return connection.recv(12)


def test_every_line_of_every_program_is_json_and_names_its_request(tmp_path: Path) -> None:
    evalhub = Evalhub(tmp_path)
    evalhub.make_tables()
    digest, secret = evalhub.manage("shell", "--no-imports", "-c", STORY).split()
    with Up(tmp_path / "data", EVALHUB_LOG_FORMAT="json", **_QUIET) as up:
        logs = up.data / "logs"
        answer = httpx.post(
            f"{up.url}/api/v1/plans/{digest}/close",
            headers={"Authorization": f"Bearer {secret}", "X-Request-ID": "r-42"},
            trust_env=False,
        )
        ask_hostilely(up.port)
        unreadable = ask_unreadably(up.port, b"Host: localhost", b"Authorization Bearer s3cret")
        foreign = httpx.get(f"{up.url}/", headers={"Host": "evil.test"}, trust_env=False)

        def of_request() -> list[dict[str, Any]]:
            return [line for line in lines(logs / "worker.log") if line.get("request_id") == "r-42"]

        def of_sweeps() -> list[dict[str, Any]]:
            return [line for line in lines(logs / "worker.log") if "sweep" in line.get("task", "")]

        assert wait_for(lambda: any("succeeded" in line["message"] for line in of_request()), 60), (
            lines(logs / "worker.log")
        )
        assert wait_for(lambda: bool(of_sweeps()), 60), lines(logs / "worker.log")
        concluded, sweeps = of_request(), of_sweeps()

    assert (answer.status_code, answer.headers["X-Request-ID"]) == (200, "r-42")
    assert {line["task"] for line in concluded} == {"gates.conclude_plan"}
    assert {line["plan"] for line in concluded} == {digest}
    assert len({line["task_id"] for line in concluded}) == 1
    assert not any("request_id" in line or "plan" in line for line in sweeps)

    web = lines(logs / "web.log")
    assert {line["logger"] for line in web} >= {"gunicorn.error", "evalhub.access"}
    (closed,) = [line for line in web if line.get("request_id") == "r-42"]
    assert (closed["method"], closed["status"], closed["plan"]) == ("POST", 200, digest)
    assert closed["token"] == secret[:8]
    everything = (logs / "web.log").read_text() + (logs / "worker.log").read_text()
    assert secret not in everything
    assert "s3cret" not in everything
    assert not any(line["level"] == "CRITICAL" for line in web)

    assert (unreadable, foreign.status_code) == (b"HTTP/1.1 400", 400)
    assert_strangers_leave_warnings(web)


def assert_strangers_leave_warnings(web: list[dict[str, Any]]) -> None:
    told = [line for line in web if line["message"].startswith("Invalid request")]
    (refused,) = [line for line in web if "evil.test" in line["message"]]
    # What breaks a header is never quoted. Control characters in one are refused by some web servers only.
    assert "Invalid request from ip=127.0.0.1: InvalidHeader" in {line["message"] for line in told}
    assert all(
        re.fullmatch(r"Invalid request from ip=127\.0\.0\.1: Invalid\w+", line["message"])
        for line in told
    )
    assert {line["level"] for line in [*told, refused]} == {"WARNING"}
    assert "traceback" not in refused
