"""A relay in front of the object store: it passes everything on, until a test says otherwise."""

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "expect"}
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


class Seen(NamedTuple):
    """A request on its way to the store."""

    method: str
    key: str


def is_segment(seen: Seen) -> bool:
    return seen.method == "PUT" and seen.key.endswith(".zip")


def is_receipt(seen: Seen) -> bool:
    return seen.method == "PUT" and seen.key.endswith(".receipt.json")


class Relay(ThreadingHTTPServer):
    """Listens on `url` and passes on to the store at `target`.

    `slow_down` says how many of the next segments are answered with 503. A request that `hold`
    selects is kept, before it is passed on or (`after`) before its answer is, until `release`;
    `held` is set meanwhile.
    """

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.target = urlsplit(target).netloc
        self.slow_down = 0
        self.refused = 0
        self.held = threading.Event()
        self._holds: Callable[[Seen], bool] = lambda _: False
        self._after = False
        self._open = threading.Event()
        self._guard = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def hold(self, which: Callable[[Seen], bool], *, after: bool) -> None:
        """Keep the next request that `which` selects; those after it pass."""
        self.held.clear()
        self._open.clear()
        self._after = after
        self._holds = which

    def release(self) -> None:
        self._holds = lambda _: False
        self._open.set()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: that a client is killed is what tests are for."""

    def close(self) -> None:
        self.release()
        self.shutdown()
        self.server_close()

    def is_refused(self, seen: Seen) -> bool:
        with self._guard:
            if self.slow_down <= 0 or not is_segment(seen):
                return False
            self.slow_down -= 1
            self.refused += 1
            return True

    def wait_here(self, seen: Seen, *, after: bool) -> None:
        with self._guard:
            if after != self._after or not self._holds(seen):
                return
            self._holds = lambda _: False
        self.held.set()
        self._open.wait(60)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(self.command, urlsplit(self.path).path)
        if self.server.is_refused(seen):
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        self.server.wait_here(seen, after=False)
        upstream = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            # The signature covers the Host header: it is passed on as it came.
            headers = {n: v for n, v in self.headers.items() if n.lower() not in _HOP_HEADERS}
            upstream.request(self.command, self.path, body, headers)
            with upstream.getresponse() as answer:
                data = answer.read()
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        finally:
            upstream.close()
        self.server.wait_here(seen, after=True)
        kept = {n: v for n, v in answer.getheaders() if n.lower() not in _HOP_HEADERS}
        self._answer(answer.status, kept, data)

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass
