"""What the lanes of a generated plan deliver: outcomes, scores, and the bytes that say so. Pure."""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evalhub.growth.documents import STAGES, LaneShape, Shape, fingerprint
from evalhub.growth.schedule import Profile
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import ItemKind, run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.scalars import rfc3339
from evalhub.protocol.segments import HEADER_PATH

_TRANSCRIPTS = 16
"""Different conversations per category; runs share them, so that a million runs take little room."""
_JUDGE_MICROUSD = {"helpfulness": 1_900, "resolved": 0}
FINGERPRINTS = {rubric: fingerprint(rubric) for rubric in STAGES}
COUNTED_RECORDS = frozenset({ItemKind.PREFLIGHT, ItemKind.RESULT, ItemKind.JUDGE})
"""What an evidence digest is taken over."""
_WORSE = 0.3
"""How much a regression takes from the chance to pass in the first category of each lane."""
# APPNOTE.TXT: a local header, an entry of the directory and the end record, without names.
_LOCAL_BYTES, _ENTRY_BYTES, _END_BYTES = 30, 46, 22


class Call(NamedTuple):
    """A judge's scoring of a run."""

    call_id: str
    """32 hexadecimal digits."""
    rubric: str
    value: float
    cost_microusd: int


class Told(NamedTuple):
    """One run, as its lane tells it."""

    key: RunKey
    outcome: str
    started_at: str
    duration_ms: int
    latency_s: float | None
    calls: list[Call]


class Piece(NamedTuple):
    """An item on its way into a segment."""

    kind: ItemKind
    key: RunKey | None
    part: int | None
    name: str | None
    path: str
    data: bytes
    sha256: str
    lines: int | None


class Laid(NamedTuple):
    """A segment: where the bytes of each member lie in its archive, and how many there are."""

    header: bytes
    pieces: list[Piece]
    offsets: list[int]
    size_bytes: int


def told_runs(
    shape: Shape,
    lane: LaneShape,
    profile: Profile,
    *,
    count: int,
    at: datetime,
    chance: np.random.Generator,
) -> list[Told]:
    """Return the first `count` runs of a lane, begun at `at`."""
    keys = shape.run_keys(lane)[:count]
    passes, breaks = chance.random(count), chance.random(count)
    slower = 1.6 if profile is Profile.SLOWER else 1.0
    latencies = chance.lognormal(2.2, 0.5, count) * slower
    ids = chance.bytes(16 * count * len(shape.judged)).hex()
    started_at = rfc3339(at)
    told = []
    for i, key in enumerate(keys):
        has_passed = passes[i] < _chance_to_pass(key.scenario, lane, profile)
        outcome = "passed" if has_passed else "failed"
        latency = round(float(latencies[i]), 3)
        if breaks[i] < 0.015:
            outcome = "agent_error" if breaks[i] < 0.01 else "infra_error"
        is_measured = outcome in ("passed", "failed")
        calls = [
            Call(
                _version_7(ids[32 * (i * len(shape.judged) + n) :][:32]),
                rubric,
                _value(rubric, has_passed=has_passed, noise=float(breaks[i])),
                _JUDGE_MICROUSD[rubric],
            )
            for n, rubric in enumerate(shape.judged if is_measured else ())
        ]
        told.append(
            Told(
                key,
                outcome,
                started_at,
                int(latency * 1000),
                latency if is_measured else None,
                calls,
            )
        )
    return told


@lru_cache(maxsize=4096)
def _chance_to_pass(scenario: str, lane: LaneShape, profile: Profile) -> float:
    usual = 0.6 + 0.38 * int(bytes_digest(scenario.encode())[7:11], 16) / 0xFFFF
    is_first_category = scenario.startswith(lane.categories[0])
    if profile is Profile.REGRESSED and is_first_category:
        return usual - _WORSE
    return min(usual + 0.2, 0.99) if profile is Profile.IMPROVED else usual


def _value(rubric: str, *, has_passed: bool, noise: float) -> float:
    if rubric == "resolved":
        return float(has_passed)
    return round((7.5 if has_passed else 4.0) + 2 * noise, 1)


def _version_7(digits: str) -> str:
    return f"{digits[:12]}7{digits[13:16]}8{digits[17:]}"


def laid_out(header: bytes, pieces: Iterable[Piece]) -> Laid:
    """Return a segment of stored members, as `archive` writes it."""
    name_bytes = len(HEADER_PATH)
    offset, directory = _LOCAL_BYTES + name_bytes + len(header), _ENTRY_BYTES + name_bytes
    laid = Laid(header, [], [], 0)
    for piece in pieces:
        laid.pieces.append(piece)
        laid.offsets.append(offset)
        offset += _LOCAL_BYTES + len(piece.path) + len(piece.data)
        directory += _ENTRY_BYTES + len(piece.path)
    return laid._replace(size_bytes=offset + directory + _END_BYTES)


def archive(segment: Laid) -> bytes:
    """Return the bytes of a segment's ZIP file; its members lie where `segment` says."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER_PATH), segment.header)
        for piece in segment.pieces:
            archive.writestr(zipfile.ZipInfo(piece.path), piece.data)
    return file.getvalue()


_PREFLIGHT = json.dumps(
    {
        "guards": [
            {
                "name": "memory_effect",
                "expected": "off",
                "observed": "off",
                "result": "ok",
                "fix": "Start the lane with its memory off.",
            }
        ]
    }
).encode()


def records(told: Sequence[Told]) -> Iterator[Piece]:
    """Yield what a segment of class `record` holds: what the lane checked, results, judge lines."""
    path = "lane/preflight.json"
    yield Piece(ItemKind.PREFLIGHT, None, None, None, path, *_named(_PREFLIGHT), None)
    for run in told:
        folder = _folder(run.key)
        latency = "null" if run.latency_s is None else run.latency_s
        data = (
            f'{{"outcome":"{run.outcome}","started_at":"{run.started_at}"'
            f',"duration_ms":{run.duration_ms},"scores":{{"latency_s":{latency}}}'
            ',"transcript_parts":1}'
        ).encode()
        path = f"{folder}/result.json"
        yield Piece(ItemKind.RESULT, run.key, None, None, path, *_named(data), None)
        if run.calls:
            data = b"".join(_judge_line(call) for call in run.calls)
            path = f"{folder}/judge.1.ndjson"
            yield Piece(ItemKind.JUDGE, run.key, 1, None, path, *_named(data), len(run.calls))


def bulk(told: Sequence[Told]) -> Iterator[Piece]:
    """Yield what a segment of class `bulk` holds: the lane's log and the transcripts."""
    log = f"{len(told)} runs\n".encode()
    yield Piece(ItemKind.LOG, None, 1, "agent", "lane/logs/agent.1.log", *_named(log), None)
    for run in told:
        category, _, number = run.key.scenario.rpartition("-")
        talk = _transcript(category, (int(number) + run.key.epoch) % _TRANSCRIPTS)
        path = f"{_folder(run.key)}/transcript.1.ndjson"
        yield Piece(ItemKind.TRANSCRIPT, run.key, 1, None, path, *talk)


def _named(data: bytes) -> tuple[bytes, str]:
    return data, bytes_digest(data)


class _Transcript(NamedTuple):
    data: bytes
    sha256: str
    lines: int


@lru_cache(maxsize=1024)
def _transcript(category: str, variant: int) -> _Transcript:
    turns: list[dict[str, object]] = [
        {
            "role": "user",
            "kind": "message",
            "text": f"I need help with {category}, case {variant}.",
        },
        {
            "role": "assistant",
            "kind": "tool_call",
            "tool": {"name": f"find_{category}", "arguments": json.dumps({"case": variant})},
        },
        {"role": "tool", "kind": "tool_result", "text": json.dumps({"open": variant % 3})},
        {"role": "assistant", "kind": "message", "text": f"There are {variant % 3} open cases."},
    ]
    lines = [json.dumps({"turn": n, **turn}) for n, turn in enumerate(turns, start=1)]
    data = "".join(f"{line}\n" for line in lines).encode()
    return _Transcript(*_named(data), len(lines))


def _judge_line(call: Call) -> bytes:
    digits = call.call_id
    uuid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return (
        f'{{"call_id":"{uuid}","rubric":"{call.rubric}","stage":"{STAGES[call.rubric]}"'
        f',"fingerprint":"{FINGERPRINTS[call.rubric]}","value":{call.value},"cites":[4]'
        f',"rationale":"The last turn says so.","cost_microusd":{call.cost_microusd}'
        ',"cost_source":"provider"}\n'
    ).encode()


_folder = lru_cache(maxsize=4096)(run_folder)
