"""One POST, to receivers that answer well, badly, slowly, for ever or not at all."""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat

import pytest

from evalhub.web.transports.addresses import Allowance, allowance
from evalhub.web.transports.outcomes import Arrived, Outcome, Refused, Uncertain
from evalhub.web.transports.posting import Poster
from tests.evalhub.web.transports.receivers import CERTIFICATE, Script, answer, hang_up, receiving

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HUB = allowance(["hub.test"])


def to_loopback(*_: object) -> list[str]:
    return ["127.0.0.1"]


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def post(
    url: str,
    *,
    allowed: Allowance = HUB,
    resolve: Callable[[str, int], Sequence[str]] = to_loopback,
    timeout_seconds: float = 20,
) -> Outcome:
    poster = Poster(allowed, resolve, trust(), timeout_seconds)
    return poster.post(
        url, content=b'{"a": 1}', headers={"Content-Type": "application/json"}, at=NOON
    )


def test_post_arrives_over_tls_under_the_name_of_the_url() -> None:
    with receiving(answer("204 No Content"), tls=True) as receiver:
        outcome = post(f"https://hub.test:{receiver.port}/in?x=1")

    assert outcome == Arrived()
    assert receiver.body == b'{"a": 1}'
    assert receiver.requests[0].startswith(b"POST /in?x=1 HTTP/1.1\r\n")
    assert receiver.header["host"] == f"hub.test:{receiver.port}"
    assert receiver.header["content-type"] == "application/json"


def test_certificate_of_another_name_is_refused() -> None:
    with receiving(answer("204 No Content"), tls=True) as receiver:
        outcome = post(f"https://other.test:{receiver.port}/", allowed=allowance(["other.test"]))

    assert isinstance(outcome, Refused)
    assert "certificate verify failed" in outcome.detail
    assert receiver.requests == []


def test_name_is_resolved_once_and_the_connection_goes_there() -> None:
    # A name that first leads to an allowed address and then, were it asked again, elsewhere.
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    with receiving(answer("200 OK"), tls=True) as receiver:
        outcome = post(
            f"https://hub.test:{receiver.port}/",
            allowed=allowance(["127.0.0.1"]),
            resolve=lambda *_: next(answers),
        )

    assert outcome == Arrived()
    assert next(answers) == ["127.0.0.2"]


@pytest.mark.parametrize("inside", [["127.0.0.1"], ["1.1.1.1", "127.0.0.1"], ["::ffff:127.0.0.1"]])
def test_nothing_is_connected_to_where_an_address_is_inside(inside: list[str]) -> None:
    with receiving(answer("200 OK"), tls=True) as receiver:
        outcome = post(
            f"https://hub.test:{receiver.port}/", allowed=Allowance(), resolve=lambda *_: inside
        )

    assert isinstance(outcome, Refused)
    assert "not public" in outcome.detail
    assert "127.0.0.1" not in outcome.detail
    assert receiver.connections == 0


def test_second_address_is_tried_where_the_first_is_dead() -> None:
    with receiving(answer("200 OK")) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/", resolve=lambda *_: ["::1", "127.0.0.1"])

    assert outcome == Arrived()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_redirects_are_not_followed(status: str) -> None:
    location = "Location: http://169.254.169.254/latest/meta-data/"
    with receiving(answer(status, location)) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/")

    assert isinstance(outcome, Refused)
    assert "a redirect, which is not followed: give the final URL" in outcome.detail
    assert receiver.connections == 1


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(answer("200 OK")) as proxy, receiving(answer("200 OK")) as receiver:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        outcome = post(f"http://hub.test:{receiver.port}/")

    assert outcome == Arrived()
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (answer("400 Bad Request"), Refused("hub.test answered 400.")),
        (answer("410 Gone"), Refused("hub.test answered 410.")),
        (answer("500 Internal Server Error"), Uncertain("hub.test answered 500.")),
        (answer("503 Service Unavailable"), Uncertain("hub.test answered 503.")),
        (
            answer("503 Service Unavailable", "Retry-After: 30"),
            Refused("hub.test answered 503.", NOON + timedelta(seconds=30)),
        ),
        (
            answer("429 Too Many Requests", "Retry-After: 120"),
            Refused("hub.test answered 429.", NOON + timedelta(seconds=120)),
        ),
        (
            answer("429 Too Many Requests", "Retry-After: Sun, 29 Nov 2026 12:05:00 GMT"),
            Refused("hub.test answered 429.", NOON + timedelta(minutes=5)),
        ),
        (
            answer("429 Too Many Requests", "Retry-After: 999999999"),
            Refused("hub.test answered 429.", NOON + timedelta(days=1)),
        ),
        (
            answer("429 Too Many Requests", "Retry-After: -5"),
            Refused("hub.test answered 429."),
        ),
        (
            answer("429 Too Many Requests", "Retry-After: Mon, 01 Jan 0001 00:00:00 GMT"),
            Refused("hub.test answered 429.", NOON),
        ),
        (answer("429 Too Many Requests"), Refused("hub.test answered 429.")),
    ],
)
def test_answers_are_told_apart(script: Script, outcome: Outcome) -> None:
    with receiving(script) as receiver:
        assert post(f"http://hub.test:{receiver.port}/") == outcome


def test_words_of_an_internal_receiver_are_not_repeated() -> None:
    with receiving(answer("400 Bad Request", body=b"secret of the inside")) as receiver:
        by_name = post(f"http://hub.test:{receiver.port}/")
        by_network = post(f"http://127.0.0.1:{receiver.port}/", allowed=allowance(["127.0.0.0/8"]))

    assert by_name == Refused("hub.test answered 400.")
    assert by_network == Refused("127.0.0.1 answered 400.")


def reset(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-")


def not_http(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example.org ESMTP\r\n")


@pytest.mark.parametrize("script", [hang_up, reset, not_http])
def test_receiver_that_breaks_off_leaves_it_uncertain(script: Script) -> None:
    with receiving(script) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/")

    assert isinstance(outcome, Uncertain)
    assert "hub.test broke off" in outcome.detail


def test_closed_port_and_unknown_name_refuse() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    def unknown(*_: object) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    closed = post(f"http://hub.test:{port}/")
    nameless = post("https://hub.test/", resolve=unknown)

    assert isinstance(closed, Refused)
    assert "could not be reached" in closed.detail
    assert isinstance(nameless, Refused)
    assert "has no address" in nameless.detail


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def drip(first: bytes, then: bytes) -> Script:
    """Send `first`, then `then` again and again: each read is quick, the whole never ends."""

    def script(connection: socket.socket) -> None:
        connection.sendall(first)
        for piece in repeat(then):
            connection.sendall(piece)
            # Sets a pace; the test waits for the deadline of the post alone.
            time.sleep(0.02)

    return script


@pytest.mark.parametrize(
    "script",
    [
        silent,
        drip(b"HTTP/1.1 ", b"2"),
        drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_slow_answers_end_at_one_deadline(script: Script) -> None:
    begun = time.monotonic()
    with receiving(script) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/", timeout_seconds=0.5)

    assert outcome == Uncertain("hub.test did not answer within 0.5 seconds.")
    assert time.monotonic() - begun < 15


def test_slow_body_of_a_refusal_does_not_put_the_refusal_in_doubt() -> None:
    with receiving(drip(b"HTTP/1.1 400 Bad\r\n\r\n", b"x")) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/", timeout_seconds=0.5)

    assert isinstance(outcome, Refused)


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 Server Error"])
def test_endless_answer_is_not_read(status: str) -> None:
    sent = 0

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 10000000000\r\n\r\n".encode())
        while True:
            sent += connection.send(b"x" * 2**16)

    with receiving(flood) as receiver:
        outcome = post(f"http://hub.test:{receiver.port}/")
        assert receiver.finished.wait(30)

    assert isinstance(outcome, Arrived | Refused | Uncertain)
    # What the kernel holds on both ends of a loopback connection, and no more.
    assert sent < 64 * 2**20
