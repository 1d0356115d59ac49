"""GitHub's side of a sign-in, on loopback: hands out codes' tokens and says who somebody is."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

Json = dict[str, Any]


class OAuthStandIn(ThreadingHTTPServer):
    """As GitHub Enterprise has it. `people` says who each code belongs to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.people: dict[str, Json] = {}
        self.exchanged: list[dict[str, list[str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: OAuthStandIn

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.exchanged.append(form)
        code = form["code"][0]
        if self.path == "/login/oauth/access_token" and code in self.server.people:
            self._answer(200, {"access_token": code, "token_type": "bearer", "scope": ""})
        else:
            self._answer(200, {"error": "bad_verification_code"})

    def do_GET(self) -> None:
        person = self.server.people.get(self.headers.get("Authorization", "").partition(" ")[2])
        is_known = self.path == "/api/v3/user" and person is not None
        self._answer(200 if is_known else 401, person or {"message": "Bad credentials"})

    def _answer(self, status: int, document: Json) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving_oauth() -> Iterator[OAuthStandIn]:
    """Run the stand-in while the block runs."""
    standin = OAuthStandIn()
    thread = threading.Thread(target=standin.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield standin
    finally:
        standin.shutdown()
        thread.join()
        standin.server_close()
