"""The proxy of docker/ in front of two web servers: TLS, slow lines, and servers that come and go."""

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest

from tests.programs.caddy import CaddyServer
from tests.programs.evalhub import Evalhub, EvalhubProcess
from tests.programs.postgres import PostgresServer
from tests.programs.server import free_port

pytestmark = [pytest.mark.journey, pytest.mark.enable_socket]

THREADS = 4


@pytest.fixture(scope="module")
def webs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EvalhubProcess]]:
    """Two web servers on one database; nobody asks the broker for anything here."""
    folder = tmp_path_factory.mktemp("installation")
    with PostgresServer(folder, tcp=True) as postgres:
        told = {
            "EVALHUB_PUBLIC_URL": "https://localhost",
            "EVALHUB_WEB_THREADS": str(THREADS),
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
        }
        installation = Evalhub(folder, postgres.environment, told)
        installation.prepare()
        with (
            installation.process("web", name="web-left") as left,
            installation.process("web", name="web-right") as right,
        ):
            yield [left, right]


@pytest.fixture(scope="module")
def proxy(
    tmp_path_factory: pytest.TempPathFactory, webs: list[EvalhubProcess]
) -> Iterator[CaddyServer]:
    with CaddyServer(tmp_path_factory.mktemp("caddy"), [web.port for web in webs]) as server:
        yield server


def test_pages_come_over_tls_with_secure_cookies(proxy: CaddyServer) -> None:
    with proxy.client() as client:
        page = client.get("/sign-in/")

    assert page.status_code == 200
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "secure" in page.headers["Set-Cookie"].lower()


def test_health_check_of_the_proxy_answers(proxy: CaddyServer) -> None:
    answer = httpx.get(f"http://127.0.0.1:{proxy.health_port}/healthz", trust_env=False)

    assert answer.status_code == 200


def test_slow_uploads_hold_no_thread_of_the_web_servers(proxy: CaddyServer) -> None:
    head = b"PUT /api/v1/attempts/x/segments/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n"
    lines = []
    try:
        for _ in range(3 * 2 * THREADS):
            plain = socket.create_connection(("127.0.0.1", proxy.port), timeout=20)
            lines.append(proxy.trust().wrap_socket(plain, server_hostname="localhost"))
            lines[-1].sendall(head + b"begun")

        with proxy.client(timeout=10) as client:
            answers = [client.get("/readyz").status_code for _ in range(10)]
    finally:
        for line in lines:
            line.close()

    assert answers == [200] * 10


def test_replacing_one_server_after_the_other_fails_no_request(
    proxy: CaddyServer, webs: list[EvalhubProcess]
) -> None:
    """As when a release is rolled out: each gets SIGTERM, ends, and comes back, while others ask.

    What may not be asked twice, a POST, can fail when its server ends; who sent it sends it again.
    """
    stop = Event()
    segment = "/api/v1/attempts/att_none/segments/1"

    def ask() -> Counter[int]:
        codes: Counter[int] = Counter()
        with proxy.client() as client:
            # Often enough to meet each moment of a restart, and no load that would make it slow.
            while not stop.wait(0.05) or codes[200] <= 7:
                codes[client.get("/readyz").status_code] += 1
                codes[client.put(segment, content=b"PK" * 1000).status_code] += 1
        return codes

    with ThreadPoolExecutor(3) as pool:
        askers = [pool.submit(ask) for _ in range(3)]
        try:
            for web in webs:
                web.restart()
        finally:
            stop.set()
    codes = sum((asker.result() for asker in askers), Counter())

    # Without a token the second question is answered too: by a refusal.
    assert set(codes) == {200, 401}
    assert min(codes.values()) > 20


def test_killed_server_is_gone_round(proxy: CaddyServer, webs: list[EvalhubProcess]) -> None:
    webs[0].kill()
    try:
        with proxy.client() as client:
            answers = [client.get("/readyz").status_code for _ in range(20)]
    finally:
        webs[0].start()

    assert answers == [200] * 20
