"""Lanes that send runs without end, through whatever happens to the server, and remember each receipt."""

import json
import secrets
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Receipt
from evalhub.runner.errors import StoreUnreachableError
from tests.bench import lanes
from tests.bench.lanes import Lane, Segment, Shape
from tests.faults.house import House
from tests.lanes.factories import CHECK_FINGERPRINT

Answer = TypeVar("Answer")

_SCENARIOS = 20
"""Of a plan; then it is sealed and the next one is registered."""
_PAUSE_SECONDS = 0.05
"""Before each request, the same one again or the next."""
_TEXT_BYTES = 10_000


class Kept(NamedTuple):
    """A receipt as a lane got it, and what it promises."""

    plan: str
    attempt: str
    receipt: Receipt
    sha256: str
    """Of the bytes that were sent."""
    key: RunKey
    text: str | None
    """What the only turn of the transcript says; None of a segment of records."""


class Sender:
    """A thread that registers plans, opens attempts, sends and seals until it is stopped."""

    def __init__(self, house: House, folder: Path, *, number: int) -> None:
        self.kept: list[Kept] = []
        self.trouble = ""
        """Why the newest request that was not answered was not."""
        self._house, self._folder = house, folder
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"lane {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def raise_failure(self) -> None:
        """Raise what ended the thread: the store refused something, or answered nonsense."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while True:
                self._send_plan()
        except _StoppedError:
            return
        except Exception as error:  # noqa: BLE001 - raised again by `raise_failure`
            self._failure = error

    def _send_plan(self) -> None:
        shape = Shape(scenarios=_SCENARIOS, epochs=1)
        expects = ("result", "transcript", "judge")
        plan = self._patiently(lambda: lanes.register(self._house, shape, expects=expects))
        with self._patiently(lambda: Lane(self._house, plan, folder=self._folder)) as lane:
            for key in lanes.run_keys(shape):
                text = secrets.token_hex(_TEXT_BYTES // 2)
                self._send(lane, lane.cut("record", _records(key)), key, text=None)
                self._send(lane, lane.cut("bulk", [_transcript(key, text)]), key, text=text)
            self._patiently(lane.seal)

    def _send(self, lane: Lane, segment: Segment, key: RunKey, *, text: str | None) -> None:
        receipt = self._patiently(lambda: lane.send(segment))
        self.kept.append(Kept(lane.plan, lane.attempt, receipt, segment.sha256, key, text))
        segment.path.unlink()

    def _patiently(self, request: Callable[[], Answer]) -> Answer:
        """Make a request until it is answered."""
        while True:
            if self._is_over.wait(_PAUSE_SECONDS):
                raise _StoppedError
            try:
                return request()
            except StoreUnreachableError as error:
                # It was killed, or is being started: what this is about.
                self.trouble = str(error)


class _StoppedError(Exception):
    """The thread is to end."""


def _records(key: RunKey) -> list[tuple[str, bytes]]:
    result = {"outcome": "passed", "scores": {"latency_s": 1.5}, "transcript_parts": 1}
    line = {
        "call_id": str(uuid.uuid4()),
        "rubric": "resolved",
        "stage": "check",
        "fingerprint": CHECK_FINGERPRINT,
        "value": 1.0,
        "cites": [1],
        "cost_microusd": 7,
        "cost_source": "provider",
    }
    return [
        (format_path(ItemPath(ItemKind.RESULT, key)), json.dumps(result).encode()),
        (format_path(ItemPath(ItemKind.JUDGE, key, part=1)), json.dumps(line).encode() + b"\n"),
    ]


def _transcript(key: RunKey, text: str) -> tuple[str, bytes]:
    turn = {"turn": 1, "role": "assistant", "kind": "message", "text": text}
    path = format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=1))
    return path, json.dumps(turn).encode() + b"\n"
