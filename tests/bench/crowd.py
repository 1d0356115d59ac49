"""Many lanes at once that send each run as it ends, while people read pages."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from evalhub.runner.errors import StoreUnreachableError
from tests.bench import lanes
from tests.bench.installation import Installation
from tests.bench.lanes import Lane, Segment, Shape, Told

EPOCHS = 5
READERS = 3
_PAUSE_SECONDS = 0.2
"""Of a reader between two pages, and of a lane that was asked to come again."""


class Seen:
    """How long each kind of request took, and what was answered badly. Many threads write into it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.busy = 0

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[kind].append(time.perf_counter() - began)


def measured(
    house: Installation, told: list[Told], *, folder: Path, lane_count: int, runs: int
) -> dict[str, Any]:
    """Send so many runs over so many lanes, a record and a bulk segment for each run."""
    scenarios = max(runs // lane_count // EPOCHS, 1)
    shape = Shape(scenarios, EPOCHS)
    plan = lanes.register(house, shape, lanes=lane_count, fields=lanes.UNJUDGED)
    seen, is_over = Seen(), threading.Event()
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(Lane(house, plan, folder=folder, number=number))
            for number in range(1, lane_count + 1)
        ]
        work = []
        for number, lane in enumerate(crowd, start=1):
            keys = lanes.run_keys(shape, lane=number)
            each = {key: told[(number + i) % len(told)] for i, key in enumerate(keys)}
            work.append(lane.cut_runs(each, at_once=1))
        # The pages show what is there from the first lane's first run on.
        first, work[0] = work[0][:2], work[0][2:]
        for segment in first:
            crowd[0].send(segment)
        pages = _pages(house, plan)
        # Signed in before the clock runs, once for all readers.
        assert house.signed_in
        pool = stack.enter_context(ThreadPoolExecutor(lane_count + READERS))
        stack.callback(is_over.set)
        readers = [pool.submit(_read, house, pages, seen, is_over) for _ in range(READERS)]
        began = time.perf_counter()
        senders = [
            pool.submit(_send, lane, segments, seen)
            for lane, segments in zip(crowd, work, strict=True)
        ]
        for sender in senders:
            sender.result()
        seconds = time.perf_counter() - began
        is_over.set()
        for reader in readers:
            reader.result()
    return _summed_up(seen, seconds, shape=shape, lane_count=lane_count)


def _summed_up(seen: Seen, seconds: float, *, shape: Shape, lane_count: int) -> dict[str, Any]:
    return {
        "lanes": lane_count,
        "runs": lane_count * shape.scenarios * shape.epochs,
        "readers": READERS,
        "seconds": seconds,
        "milliseconds": {kind: _percentiles(found) for kind, found in seen.seconds.items()},
        "asked_to_come_again": seen.busy,
        "errors": seen.errors.total(),
        "what_failed": dict(seen.errors),
    }


def _pages(house: Installation, plan: str) -> dict[str, str]:
    with lanes.reader(house) as store:
        (run,) = store.runs({"plan": plan, "limit": 1})["runs"]
    root = f"/plans/{plan}"
    return {
        "plan page": f"{root}/",
        "run list": f"{root}/runs/",
        "transcript": f"/runs/{run['id']}/",
    }


def _send(lane: Lane, segments: list[Segment], seen: Seen) -> None:
    for segment in segments:
        while True:
            try:
                with seen.timed("receipt"):
                    receipt = lane.send(segment)
            except StoreUnreachableError as error:
                if error.code != "uploads-busy":
                    seen.errors[f"receipt: {error}"] += 1
                seen.busy += 1
                time.sleep(_PAUSE_SECONDS)
                continue
            break
        if receipt.refused:
            seen.errors[f"refused: {receipt.refused[0].code}"] += 1


def _read(house: Installation, pages: dict[str, str], seen: Seen, is_over: threading.Event) -> None:
    with httpx.Client(
        base_url=house.url, cookies=house.signed_in, timeout=60, trust_env=False
    ) as person:
        # Each page once at least, however quick the lanes are.
        while True:
            for name, path in pages.items():
                with seen.timed(name):
                    answer = person.get(path)
                if answer.status_code != 200:
                    seen.errors[f"{name}: {answer.status_code}"] += 1
                is_over.wait(_PAUSE_SECONDS)
            if is_over.is_set():
                return


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    found: dict[str, float] = {"count": len(ordered)}
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        found[name] = 1000 * ordered[int(share * (len(ordered) - 1))]
    return found


def print_table(found: dict[str, Any]) -> None:
    """Print what came out as people read it."""
    segments = found["milliseconds"]["receipt"]["count"]
    print(
        f"\n{found['lanes']} lanes send {found['runs']} runs as {segments} segments within"
        f" {found['seconds']:.1f} s ({segments / found['seconds']:.0f} a second),"
        f" {found['readers']} people read; milliseconds"
    )
    print(f"{'':26} {'times':>7} {'p50':>8} {'p95':>8} {'p99':>8}")
    for kind, row in found["milliseconds"].items():
        print(f"{kind:26} {row['count']:7} {row['p50']:8.1f} {row['p95']:8.1f} {row['p99']:8.1f}")
    print(
        f"{found['errors']} errors {found['what_failed'] or ''};"
        f" {found['asked_to_come_again']} times asked to come again"
    )
