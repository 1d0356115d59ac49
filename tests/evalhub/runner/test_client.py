"""What a person is told when the store says no, or something else answers."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evalhub.runner.client import Store
from evalhub.runner.errors import InputError, RunnerError, StoreUnreachableError
from evalhub.runner.refusals import StoreRefusedError

Answering = Callable[[bytes], Store]


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Serve one fixed answer, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def http_answer(status: str, body: object) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


def refusal(answer: bytes) -> RunnerError:
    with raw_server(answer) as url:
        store = Store(url, "token")
        with pytest.raises(RunnerError) as caught:
            store.plan("sha256:x")
        store.close()
    return caught.value


PROBLEM = {
    "type": "/errors/not-found",
    "title": "Not Found",
    "status": 404,
    "code": "not-found",
    "detail": "There is no suite x.",
    "fix": "Register it first.",
    "errors": [],
    "added_by_a_newer_server": 1,
}


def test_a_problem_is_told_with_its_mend() -> None:
    error = refusal(http_answer("404 Not Found", PROBLEM))

    assert isinstance(error, StoreRefusedError)
    assert str(error) == "There is no suite x. Register it first."
    assert (error.status, error.code, error.exit_code) == (404, "not-found", 2)


def test_a_plan_that_is_not_registered_is_told_with_the_command_that_registers_it() -> None:
    body = {**PROBLEM, "detail": "There is no plan sha256:x.", "fix": None}

    error = refusal(http_answer("404 Not Found", body))

    assert str(error) == (
        "There is no plan sha256:x: register it first with `evalhub plan register FILE`."
    )


def test_every_fault_of_a_problem_is_told() -> None:
    faults = [{"pointer": f"/lanes/{i}", "got": "x", "expected": "y"} for i in range(3)]

    error = refusal(http_answer("422 Unprocessable", {**PROBLEM, "status": 422, "errors": faults}))

    listed = [f"  /lanes/{i} was x; expected y" for i in range(3)]
    assert str(error).splitlines()[1:] == [*listed, "Register it first."]


def test_a_fault_is_told_once_though_the_detail_has_it_too() -> None:
    faults = [{"pointer": f"/{name}", "got": "x", "expected": "y"} for name in "ab"]
    detail = "The plan is not valid: /a was x; expected y; /b was x; expected y."
    body = {**PROBLEM, "status": 422, "detail": detail, "fix": None, "errors": faults}

    error = refusal(http_answer("422 Unprocessable", body))

    assert str(error).splitlines() == [
        "The plan is not valid:",
        "  /a was x; expected y",
        "  /b was x; expected y",
    ]


@pytest.mark.parametrize("status", ["500 Oops", "502 Bad Gateway", "503 Away", "429 Slow down"])
def test_a_server_that_cannot_work_is_exit_code_4(status: str) -> None:
    error = refusal(http_answer(status, b"<html>proxy says no</html>"))

    assert isinstance(error, StoreUnreachableError)
    assert error.exit_code == 4
    assert "proxy says no" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        http_answer("200 OK", b"<html>a wiki</html>"),
        http_answer("200 OK", []),
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
def test_something_that_is_no_store_is_exit_code_4(answer: bytes) -> None:
    error = refusal(answer)

    assert error.exit_code == 4
    assert "EVALHUB_URL" in str(error)


@pytest.mark.parametrize("url", ["evalhub.example.com", "ftp://x", "http://", "", "http:///path"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(InputError, match="EVALHUB_URL was"):
        Store(url, "token")


@pytest.mark.parametrize("token", ["two words", "tab\t", "line\n", "ü"])
def test_a_token_that_is_none_is_not_sent_and_not_shown(token: str) -> None:
    with pytest.raises(InputError, match="EVALHUB_TOKEN") as caught:
        Store("http://127.0.0.1:1", token)

    assert token not in str(caught.value)


def test_a_project_that_is_none_is_named() -> None:
    store = Store("http://127.0.0.1:1", "token")

    with pytest.raises(InputError, match="The project was 'acme'; expected OWNER/NAME"):
        store.policy("acme")
    store.close()
