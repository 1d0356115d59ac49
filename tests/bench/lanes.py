"""Lanes as a bench needs them: a plan of so many runs, an attempt of a lane, segments that it sends."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from evalhub.protocol.archive import WrittenSegment, write_archive
from evalhub.protocol.messages import SealAnswer, SealRequest
from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Receipt, SegmentDigest, SegmentHeader, seal_digest
from evalhub.runner import clock
from evalhub.runner.client import Store
from evalhub.runner.importers.records import SourceFile
from evalhub.runner.importers.tau_bench import read_results
from lanes.projects.models import Project
from tests.faults.house import PROJECT, REPOSITORY_ID, House, answered
from tests.lanes.factories import POLICY, TESTED_SHA, plan_document, suite_document

Json = dict[str, Any]
SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "tau_bench"
UNJUDGED_POLICY: Json = {
    **POLICY,
    "rubrics": {
        "resolved": {
            "kind": "binary",
            "direction": "higher_is_better",
            "min_effect": 0.1,
            "gate": "block",
            "from": "result",
        },
        "turns": {
            "kind": "continuous",
            "direction": "lower_is_better",
            "min_effect": 5,
            "gate": "info",
            "value_type": "count",
            "from": "result",
        },
    },
}
"""As tau-bench's results are judged: by what they say themselves."""
UNJUDGED: Json = {"rubrics": ["resolved", "turns"], "stages": []}
"""What a plan under that policy says."""
Write = Callable[[BinaryIO, SegmentHeader, Iterable[tuple[str, bytes]]], WrittenSegment]
_numbers = count(1)


class Told(NamedTuple):
    """What a run leaves: its result and its transcript, as a lane writes them."""

    result: bytes
    transcript: bytes
    turns: int


class Shape(NamedTuple):
    """How many runs each lane of a plan has."""

    scenarios: int
    epochs: int


class Segment(NamedTuple):
    """A segment as it lies in a spool."""

    seq: int
    path: Path
    sha256: str
    size_bytes: int


def tau_bench_runs(files: Sequence[Path]) -> list[Told]:
    """Return the runs in result files of tau-bench, in the order of tasks and trials."""
    results = read_results([SourceFile(path, path.read_bytes()) for path in files])
    return [_told(run.result, run.turns) for run in results.runs]


def _told(result: Json, turns: Sequence[Json]) -> Told:
    lines = "".join(json.dumps(turn, ensure_ascii=False) + "\n" for turn in turns)
    whole = {**result, "transcript_parts": 1}
    return Told(json.dumps(whole).encode(), lines.encode(), len(turns))


def take_policy(house: House, policy: Json) -> None:
    """Have the plans that follow judged by this policy."""
    answer = answered(house.request("PUT", f"projects/{PROJECT}/policy", json=policy))
    house.policy_digest = answer["digest"]


def register(
    house: House,
    shape: Shape,
    *,
    lanes: int = 1,
    expects: Sequence[str] = ("result", "transcript"),
    fields: Mapping[str, object] | None = None,
) -> str:
    """Register a plan of one arm and return its digest; each lane has runs of this shape.

    `fields` are those of the plan's document.
    """
    named = [
        (scenario_id(lane, number), f"category-{lane:03}")
        for lane in range(1, lanes + 1)
        for number in range(1, shape.scenarios + 1)
    ]
    suite = suite_document(scenarios=named)
    document = plan_document(
        Project(name=PROJECT, repository_id=REPOSITORY_ID),
        policy_digest=house.policy_digest,
        at=clock.now(),
        epochs=shape.epochs,
        scenarios=named,
        # Another commit each: none has the others superseded.
        source={"head_sha": f"{next(_numbers):040x}", "pull_request": None, "event": "push"},
        lane={"expects": {"run": list(expects), "lane": []}},
        limits={"ordinary": lanes, "baseline": 0, "max_parallel": lanes},
        **(fields or {}),
    )
    with Store(house.url, house.token) as store:
        # A plan covers the whole suite as it is now.
        store.put_suite(PROJECT, json.dumps(suite).encode())
        return store.register(json.dumps(document).encode()).digest


def reader(house: House) -> Store:
    """Return a connection of somebody who reads by the API."""
    return Store(house.url, house.token)


def scenario_id(lane: int, number: int) -> str:
    return f"task-{lane}-{number}"


def run_keys(shape: Shape, *, lane: int = 1) -> list[RunKey]:
    """Return the run keys of the `lane`-th lane of such a plan."""
    return [
        RunKey(scenario_id(lane, number), "candidate", epoch)
        for number in range(1, shape.scenarios + 1)
        for epoch in range(1, shape.epochs + 1)
    ]


class Lane:
    """An open attempt of the `number`-th lane of a plan, on a connection of its own."""

    def __init__(self, house: House, plan: str, *, folder: Path, number: int = 1) -> None:
        self.house, self.plan, self.name = house, plan, f"ordinary-{number}"
        with Store(house.url, house.token) as store:
            opened = store.open_attempt(plan, self.name).attempt
        self.attempt = opened.attempt
        self.store = Store(house.url, opened.lane_token)
        self.sent: list[Segment] = []
        self._folder = folder
        self._next = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def cut(
        self, class_: str, members: Iterable[tuple[str, bytes]], *, write: Write = write_archive
    ) -> Segment:
        """Write a segment into the folder."""
        seq, self._next = self._next, self._next + 1
        header = SegmentHeader.model_validate(
            {
                "project": PROJECT,
                "plan": self.plan,
                "lane": self.name,
                "attempt": self.attempt,
                "seq": seq,
                "class": class_,
                "tested_sha": TESTED_SHA,
                "created_at": clock.now(),
            }
        )
        path = self._folder / f"{self.attempt}-{seq}.zip"
        with path.open("w+b") as file:
            written = write(file, header, members)
        return Segment(seq, path, written.sha256, written.size_bytes)

    def cut_runs(self, runs: Mapping[RunKey, Told], *, at_once: int) -> list[Segment]:
        """Write two segments, one of each class, for every so many runs."""
        segments = []
        told_runs = list(runs.items())
        for start in range(0, len(told_runs), at_once):
            some = told_runs[start : start + at_once]
            segments.append(self.cut("record", (_result(key, told) for key, told in some)))
            segments.append(self.cut("bulk", (_transcript(key, told) for key, told in some)))
        return segments

    def send(self, segment: Segment) -> Receipt:
        """Hand a segment over and return its receipt."""
        sha256 = segment.sha256.removeprefix("sha256:")
        receipt = self.store.put_segment(self.attempt, segment.seq, segment.path, sha256=sha256)
        self.sent.append(segment)
        return receipt

    def seal(self) -> SealAnswer:
        """Say that the attempt is over."""
        digest = seal_digest(SegmentDigest(one.seq, one.sha256) for one in self.sent)
        return self.store.seal(
            self.attempt, SealRequest(segments=len(self.sent), digest=digest, final=True)
        )


def _result(key: RunKey, told: Told) -> tuple[str, bytes]:
    return format_path(ItemPath(ItemKind.RESULT, key)), told.result


def _transcript(key: RunKey, told: Told) -> tuple[str, bytes]:
    return format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=1)), told.transcript
