"""`make bench-intake`: what it costs to have evidence durable and readable, over HTTP to a real server.

Two trials of tau-bench, each sent as two epochs, as few segments and as many, beside the bare work of
the same bytes (`tests/bench/bare.py`), in turns; a crowd of lanes while pages are read; and what
memory the web server takes while a lane sends gigabytes. Times are shown beside their goals, for
whoever knows the machine. Ends with 1 where a request failed, or memory was beyond its goal.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import django

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.settings"
    django.setup()

from evalhub.protocol.plan import RunKey
from tests.bench import crowd, lanes, memory
from tests.bench.bare import BareStore
from tests.bench.installation import Installation
from tests.bench.lanes import Lane, Segment, Shape, Told

EPOCHS = 4
"""Of each task: two trials, each sent twice."""


class Way(NamedTuple):
    """How the runs are cut into segments, and in how many seconds they are to be taken."""

    name: str
    runs_at_once: int
    goal: float


WAYS = (Way("one segment per class", 1000, 0.25), Way("one per class and two runs", 2, 1.5))


class Timed(NamedTuple):
    """Seconds of the rounds, of evalhub and of the bare work."""

    intake: list[float]
    bare: list[float]


def compared(
    house: Installation, bare: BareStore, told: list[Told], *, folder: Path, rounds: int
) -> dict[str, Timed]:
    """Send the runs in each way, and do the bare work with the same bytes, in turns."""
    timed = {way.name: Timed([], []) for way in WAYS}
    for turn in range(rounds + 1):
        for way in WAYS:
            seconds = _round(house, bare, told, folder=folder, way=way, bare_first=turn % 2 == 0)
            # The first turn makes connections and fills caches.
            if turn:
                timed[way.name].intake.append(seconds[0])
                timed[way.name].bare.append(seconds[1])
    return timed


def _round(
    house: Installation,
    bare: BareStore,
    told: list[Told],
    *,
    folder: Path,
    way: Way,
    bare_first: bool,
) -> tuple[float, float]:
    shape = Shape(len(told) // 2, EPOCHS)
    plan = lanes.register(house, shape, fields=lanes.UNJUDGED)
    keys = lanes.run_keys(shape)
    # Each task's two runs, one after the other, twice.
    runs = {key: told[i // EPOCHS * 2 + i % 2] for i, key in enumerate(keys)}
    with Lane(house, plan, folder=folder) as lane:
        segments = lane.cut_runs(runs, at_once=way.runs_at_once)
        found: dict[str, float] = {}
        doings: list[tuple[str, Callable[[], None]]] = [
            ("intake", lambda: _send(lane, segments)),
            ("bare", lambda: _take(bare, segments)),
        ]
        for name, doing in reversed(doings) if bare_first else doings:
            began = time.perf_counter()
            doing()
            found[name] = time.perf_counter() - began
        _assert_readable(lane, expected=runs)
        for segment in segments:
            segment.path.unlink()
    return found["intake"], found["bare"]


def _send(lane: Lane, segments: list[Segment]) -> None:
    for segment in segments:
        receipt = lane.send(segment)
        assert not receipt.refused, receipt.refused


def _take(bare: BareStore, segments: list[Segment]) -> None:
    for segment in segments:
        bare.take(segment.path.read_bytes())


def _assert_readable(lane: Lane, *, expected: dict[RunKey, Told]) -> None:
    """Read the runs back by the API, the longest transcript too."""
    with lanes.reader(lane.house) as store:
        found = {
            RunKey(run["scenario"], run["arm"], run["epoch"]): run
            for run in store.runs({"plan": lane.plan, "limit": 500})["runs"]
        }
        assert found.keys() == expected.keys()
        longest = max(expected, key=lambda key: expected[key].turns)
        turns = store.transcript(found[longest]["id"], start=1, limit=1000)
        assert turns["total"] == expected[longest].turns


def _bare_store(house: Installation, folder: Path) -> BareStore:
    folder.mkdir()
    url = house.postgres.create_database("bare") if house.postgres is not None else None
    return BareStore(folder, postgres=url)


def measured(database: str, options: argparse.Namespace, told: list[Told]) -> dict[str, Any]:
    """Measure everything on one database and return what came out."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="evalhub-intake-", dir=options.data))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        house = Installation(folder / "house", postgres=database == "postgres")
        stack.enter_context(house.standing())
        bare = _bare_store(house, folder / "bare")
        stack.callback(bare.close)
        spool = folder / "spool"
        spool.mkdir()
        lanes.take_policy(house, lanes.UNJUDGED_POLICY)
        _say(f"{database}: {options.rounds} rounds of 200 runs, evalhub's and bare")
        timed = compared(house, bare, told, folder=spool, rounds=options.rounds)
        found["intake"] = {name: _shown(*times) for name, times in timed.items()}
        if options.runs:
            _say(f"{database}: {options.lanes} lanes with {options.runs} runs, and readers")
            found["crowd"] = crowd.measured(
                house, told, folder=spool, lane_count=options.lanes, runs=options.runs
            )
        if options.gigabytes:
            _say(f"{database}: a lane sends {options.gigabytes} GB")
            found["memory"] = memory.measured(house, folder=spool, gigabytes=options.gigabytes)
    return found


def _shown(intake: list[float], bare: list[float]) -> dict[str, Any]:
    return {
        "intake_seconds": _spread(intake),
        "bare_seconds": _spread(bare),
        "ratio": _spread([a / b for a, b in zip(intake, bare, strict=True)]),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "most": max(values)}


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _load() -> dict[str, Any]:
    return {"processors": os.cpu_count(), "load": [round(one, 2) for one in os.getloadavg()]}


def print_table(found: dict[str, Any]) -> None:
    """Print what came out as people read it."""
    for database, parts in found["databases"].items():
        print(f"\n{database}: seconds for 200 runs in segments, median (least to most)")
        print(f"{'':26} {'evalhub':>22} {'bare work':>22} {'ratio':>20}  goal")
        for way in WAYS:
            row = parts["intake"][way.name]
            cells = [_cell(row[name]) for name in ("intake_seconds", "bare_seconds", "ratio")]
            is_over = row["intake_seconds"]["median"] > way.goal
            goal = f"{way.goal:g} s{', missed' if is_over else ''}"
            print(f"{way.name:26} {cells[0]:>22} {cells[1]:>22} {cells[2]:>20}  {goal}")
        if "crowd" in parts:
            crowd.print_table(parts["crowd"])
        if "memory" in parts:
            memory.print_table(parts["memory"])
    machine = found["machine"]
    loads = [" ".join(map(str, machine[name]["load"])) for name in ("before", "after")]
    print(
        f"\n{machine['before']['processors']} processors; load {loads[0]} before, {loads[1]} after"
    )


def _cell(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} ({spread['least']:.2f} to {spread['most']:.2f})"


def is_good(found: dict[str, Any]) -> bool:
    """Say whether every request was answered well and memory stayed below its goal."""
    parts = found["databases"].values()
    crowds = [part["crowd"] for part in parts if "crowd" in part]
    memories = [part["memory"] for part in parts if "memory" in part]
    return all(one["errors"] == 0 for one in crowds) and all(map(memory.is_kept, memories))


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="make bench-intake", description=__doc__)
    parser.add_argument("--samples", type=Path, default=lanes.SAMPLES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--runs", type=int, default=2000, help="of the crowd; 0 leaves it out")
    parser.add_argument(
        "--gigabytes", type=float, default=2.0, help="that one lane sends; 0 leaves it out"
    )
    parser.add_argument("--data", type=Path, help="a folder on the disk that is to be measured")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    options = parser.parse_args()
    files = [options.samples / f"gpt-4o-airline.trial{number}.json" for number in (0, 1)]
    if not all(file.is_file() for file in files):
        print(
            f"Nothing was measured: {' and '.join(map(str, files))} are needed, the result files of"
            " two trials of tau-bench, which are not part of this repository. Name their folder"
            " with SAMPLES=."
        )
        return 0
    if options.data is not None:
        options.data.mkdir(parents=True, exist_ok=True)
    told = lanes.tau_bench_runs(files)
    before = _load()
    wanted = ["sqlite", "postgres"] if options.database == "both" else [options.database]
    databases = {}
    for number, name in enumerate(wanted):
        databases[name] = measured(name, options, told)
        if number == 0:
            # The web server's memory does not depend on where rows go.
            options.gigabytes = 0
    found = {"machine": {"before": before, "after": _load()}, "databases": databases}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print_table(found)
    return 0 if is_good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
