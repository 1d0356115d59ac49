"""A store on the loopback address that fails on demand: real HTTP, real bytes, scripted trouble.

What it answers follows WIRE section 4 as far as a lane needs it. The real store is used in
`test_against_the_store.py`; this one can be away, lose its answers and forget tokens.
"""

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from evalhub.protocol.archive import open_archive
from evalhub.protocol.paths import ItemKind, parse_path
from evalhub.protocol.segments import HEADER_PATH, SegmentDigest, seal_digest
from evalhub.protocol.zip_structure import ArchiveLimits
from evalhub.runner import clock

RUN_TOKEN = "run-token"
SALT = "pepper"


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = {}


class LoopbackStore(ThreadingHTTPServer):
    """State and script of the store. `trouble` is taken from the left, one for each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.guard = threading.Lock()
        self.segments: dict[int, bytes] = {}
        self.receipts: dict[int, dict[str, Any]] = {}
        self.requests: Counter[str] = Counter()
        self.beats: list[dict[str, Any]] = []
        self.seals: list[dict[str, Any]] = []
        self.trouble: dict[str, deque[str]] = {}
        self.stop_reason: str | None = None
        self.refuse: set[ItemKind] = set()
        self.lane_token = "lane-token-1"
        self.opening_token = self.lane_token
        self.expires_in = 3600
        self.segment_bytes = 2**20
        self.clock_offset = timedelta()
        self.missing: list[str] = []
        self.plans: list[dict[str, Any]] = []
        self.closed: dict[str, Any] = {}
        self.conclusion = Answer(200, {})
        self.hanging: Counter[str] = Counter()
        self.is_gone = threading.Event()

    def troubled(self, call: str, *kinds: str) -> None:
        """Answer the next calls of this name with trouble.

        `503` and the other keys of TROUBLES are answers; `cut` is none, `lost` is none though all was
        done, and `hang` is none for as long as the store is there.
        """
        self.trouble[call] = deque(kinds)

    def items(self) -> dict[str, bytes]:
        """Return every item that was received, by path; two under one path fail the test."""
        found: dict[str, bytes] = {}
        for data in self.segments.values():
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in archive.namelist():
                    if name != HEADER_PATH:
                        assert name not in found, f"{name} came twice"
                        found[name] = archive.read(name)
        return found

    def document(self, path: str) -> Any:
        return json.loads(self.items()[path])

    def headers(self) -> list[dict[str, Any]]:
        return [
            json.loads(zipfile.ZipFile(io.BytesIO(data)).read(HEADER_PATH))
            for _, data in sorted(self.segments.items())
        ]

    def names(self) -> list[list[str]]:
        """Return the items of each segment, in the order of `headers`."""
        return [
            zipfile.ZipFile(io.BytesIO(data)).namelist()[1:]
            for _, data in sorted(self.segments.items())
        ]

    # Endpoints

    def open_attempt(self) -> Answer:
        body = {
            "attempt": "att_abcdefghij0123456789",
            "lane_token": self.opening_token,
            "expires_in": self.expires_in,
            "salt": SALT,
            "plan_slice": {},
            "limits": {"segment_bytes": self.segment_bytes, "flush_seconds": 1},
            "budget_microusd": None,
            "heartbeat_seconds": 1,
        }
        return Answer(201, body)

    def renew(self) -> Answer:
        self.lane_token = f"lane-token-{self.requests['token'] + 1}"
        at = clock.now() + timedelta(seconds=self.expires_in)
        return Answer(
            201,
            {
                "lane_token": self.lane_token,
                "expires_in": self.expires_in,
                "expires_at": at.isoformat().replace("+00:00", "Z"),
            },
        )

    def receive(self, seq: int, data: bytes, claimed: str) -> Answer:
        digest = hashlib.sha256(data).digest()
        assert claimed == f"sha-256=:{base64.b64encode(digest).decode()}:"
        if seq in self.segments:
            same = self.segments[seq] == data
            return Answer(200, self.receipts[seq]) if same else problem(409, "other bytes")
        archive = open_archive(io.BytesIO(data), limits=ArchiveLimits())
        refused = [
            {
                "path": m.path,
                "category": "malformed",
                "code": "scripted",
                "detail": "As the test asks.",
            }
            for m in archive.members
            if m.path != HEADER_PATH and parse_path(m.path).kind in self.refuse
        ]
        self.segments[seq] = data
        self.receipts[seq] = {
            "seq": seq,
            "sha256": f"sha256:{digest.hex()}",
            "accepted": len(archive.members) - 1 - len(refused),
            "refused": refused,
            "received_at": "2026-11-29T12:00:00Z",
        }
        return Answer(201, self.receipts[seq])

    def seal(self, body: dict[str, Any]) -> Answer:
        digests = [SegmentDigest(seq, r["sha256"]) for seq, r in self.receipts.items()]
        if (body["segments"], body["digest"]) != (len(digests), seal_digest(digests)):
            return problem(409, "other segments")
        self.seals.append(body)
        refused = [item for receipt in self.receipts.values() for item in receipt["refused"]]
        return Answer(200, {"missing": self.missing, "refused": refused, "sealed": body["final"]})

    def beat(self, body: dict[str, Any]) -> Answer:
        self.beats.append(body)
        do = "continue" if self.stop_reason is None else "stop"
        return Answer(200, {"do": do, "reason": self.stop_reason, "next_seconds": 1})


def problem(status: int, detail: str, *, fix: str | None = None, code: str = "x") -> Answer:
    body = {
        "type": f"/errors/{code}",
        "title": "x",
        "status": status,
        "code": code,
        "detail": f"{detail}.",
    }
    return Answer(status, {**body, "fix": fix, "errors": []})


TROUBLES = {
    "503": problem(503, "not now"),
    "429": problem(429, "too many requests")._replace(headers={"Retry-After": "1"}),
    "busy": problem(503, "many uploads", code="uploads-busy"),
    "incomplete": problem(400, "the upload ended early", code="upload-incomplete"),
    "changed": problem(422, "the body is another", code="digest-mismatch"),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackStore

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def log_message(self, *_: Any) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return format_datetime(clock.now() + self.server.clock_offset, usegmt=True)

    def _handle(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.partition("?")[0].split("/")
        call = {"segments": "segment"}.get(parts[-2], parts[-1])
        store = self.server
        with store.guard:
            store.requests[call] += 1
            queue = store.trouble.get(call)
            trouble = queue.popleft() if queue else None
            if trouble == "cut":
                self.close_connection = True
                return
            answer = None
            if trouble == "hang":
                store.hanging[call] += 1
            else:
                answer = TROUBLES.get(trouble or "") or self._answer(call, parts, data)
        if answer is None:
            store.is_gone.wait()
        if answer is None or trouble == "lost":
            self.close_connection = True
            return
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, call: str, parts: list[str], data: bytes) -> Answer:
        store = self.server
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if call == "attempts":
            return store.open_attempt()
        if call == "plans":
            return Answer(200, {"plans": store.plans})
        if call in {"conclusion", "close"}:
            return store.conclusion if call == "conclusion" else Answer(200, store.closed)
        if call == "token":
            is_known = given in {RUN_TOKEN, store.lane_token}
            return store.renew() if is_known else problem(401, "The token is unknown")
        if given != store.lane_token:
            return problem(401, "The token has expired")
        return self._lane_answer(call, parts, data)

    def _lane_answer(self, call: str, parts: list[str], data: bytes) -> Answer:
        store = self.server
        match call:
            case "segment":
                return store.receive(int(parts[-1]), data, self.headers["Content-Digest"])
            case "heartbeat":
                return store.beat(json.loads(data))
            case "seal":
                return store.seal(json.loads(data))
        return problem(404, "There is nothing at this address")


@contextmanager
def loopback_store() -> Iterator[LoopbackStore]:
    store = LoopbackStore()
    # A short poll, so that a test does not wait half a second for its server to end.
    thread = threading.Thread(target=store.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield store
    finally:
        store.is_gone.set()
        store.shutdown()
        thread.join()
        store.server_close()
