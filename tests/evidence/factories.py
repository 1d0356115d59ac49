"""Typed factories for segments, runs and whole lanes of evidence.

Everything goes through the real intake, so what they make is what production makes. A later call
for the same attempt uses the next free seq.
"""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db.models import Max

from evalhub.protocol.archive import write_archive
from evalhub.protocol.messages import SealRequest
from evalhub.protocol.paths import RECORD_KINDS, encoded_component, parse_path, run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import SegmentHeader, seal_digest
from evidence.store import queries
from evidence.store.models import Refusal, Run, Segment
from evidence.store.operations import intake, sealing
from evidence.store.operations.recording import Received
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt
from tests.lanes.factories import CHECK_FINGERPRINT, NOW

Json = dict[str, Any]


def result_bytes(outcome: str = "passed", **fields: Any) -> bytes:
    """Return a `result.json` that says one transcript part; `fields` replace others."""
    document: Json = {
        "outcome": outcome,
        "code": None,
        "started_at": "2026-11-29T12:00:00Z",
        "finished_at": "2026-11-29T12:00:12Z",
        "duration_ms": 12_400,
        "scores": {"latency_s": 12.4},
        "usage": [],
        "error": None,
        "transcript_parts": 1,
        **fields,
    }
    return json.dumps(document).encode()


def judge_line(value: float | None = 1.0, **fields: Any) -> Json:
    """Return a line of the deterministic check of `resolved`, at no cost."""
    return {
        "call_id": str(uuid4()),
        "rubric": "resolved",
        "stage": "check",
        "fingerprint": CHECK_FINGERPRINT,
        "repeat": 1,
        "value": value,
        "unscored_reason": None if value is not None else "judge_error",
        "rationale": "The refund exists once.",
        "cites": [1],
        "cost_microusd": 0,
        "cost_source": "provider",
        **fields,
    }


def turn_line(turn: int, text: str = "Hello", **fields: Any) -> Json:
    role = "user" if turn % 2 else "assistant"
    return {"turn": turn, "role": role, "kind": "message", "text": text, **fields}


def ndjson(*lines: Json) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def transcript_bytes(turns: int = 3) -> bytes:
    return ndjson(*(turn_line(turn) for turn in range(1, turns + 1)))


def first_run_key(attempt: Attempt) -> RunKey:
    return run_keys(attempt)[0]


def run_keys(attempt: Attempt) -> list[RunKey]:
    """Return the run keys of an attempt's lane, in the order of the plan."""
    document = plans_queries.plan_document(attempt.lane.plan)
    return document.lane(attempt.lane.name).run_keys


def make_segment(
    attempt: Attempt,
    members: Mapping[str, bytes],
    /,
    *,
    seq: int = 1,
    class_: str | None = None,
    at: datetime = NOW,
    **header: Any,
) -> bytes:
    """Return the bytes of a segment; without `class_` it has the class of its first member."""
    document = plans_queries.plan_document(attempt.lane.plan)
    arm = document.arm(first_run_key(attempt).arm)
    fields: Json = {
        "project": attempt.lane.plan.project.name,
        "plan": attempt.lane.plan.digest,
        "lane": attempt.lane.name,
        "attempt": attempt.key,
        "seq": seq,
        "class_": class_ or _class_of(next(iter(members), "lane/preflight.json")),
        "tested_sha": arm.sha,
        "created_at": at,
        **header,
    }
    file = io.BytesIO()
    write_archive(file, SegmentHeader.model_construct(**fields), members.items())
    return file.getvalue()


def content_digest(data: bytes) -> str:
    """Return the header `Content-Digest` for a body."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def send_segment(
    attempt: Attempt, data: bytes, *, seq: int = 1, at: datetime = NOW, digest: str | None = None
) -> Received:
    """Hand a segment to the intake, as the endpoint does."""
    return intake.receive_segment(
        attempt,
        seq,
        stream=io.BytesIO(data),
        length=len(data),
        content_digest=content_digest(data) if digest is None else digest,
        at=at,
    )


def send_members(
    attempt: Attempt, members: Mapping[str, bytes], *, at: datetime = NOW, **header: Any
) -> Received:
    """Send members as the attempt's next segment."""
    seq = next_seq(attempt)
    return send_segment(
        attempt, make_segment(attempt, members, seq=seq, at=at, **header), seq=seq, at=at
    )


def next_seq(attempt: Attempt) -> int:
    newest = Segment.objects.filter(attempt=attempt).aggregate(newest=Max("seq"))["newest"]
    return (newest or 0) + 1


def make_run(
    attempt: Attempt,
    key: RunKey | None = None,
    *,
    outcome: str = "passed",
    value: float | None = 1.0,
    judge_lines: list[Json] | None = None,
    turns: int = 3,
    at: datetime = NOW,
    **result: Any,
) -> Run:
    """Deliver one complete run, of the lane's first run key where none is given.

    `value` is the check's score of `resolved`; `judge_lines` replaces its line, `result` fields of
    the result. No turns: no transcript.
    """
    key = key or first_run_key(attempt)
    folder = run_folder(key)
    lines = [judge_line(value)] if judge_lines is None else judge_lines
    parts = {"transcript_parts": 1 if turns else 0}
    records = {f"{folder}/result.json": result_bytes(outcome, **{**parts, **result})}
    if lines:
        records[f"{folder}/judge.1.ndjson"] = ndjson(*lines)
    send_members(attempt, records, at=at)
    if turns:
        send_members(attempt, {f"{folder}/transcript.1.ndjson": transcript_bytes(turns)}, at=at)
    return Run.objects.get(attempt=attempt, scenario=key.scenario, arm=key.arm, epoch=key.epoch)


def make_file(
    attempt: Attempt, name: str, data: bytes, *, key: RunKey | None = None, at: datetime = NOW
) -> Received:
    """Deliver an attachment of a run."""
    folder = run_folder(key or first_run_key(attempt))
    return send_members(attempt, {f"{folder}/files/{encoded_component(name)}": data}, at=at)


def make_refusal(attempt: Attempt, *, at: datetime = NOW) -> Refusal:
    """Have one item refused: a run key that no plan has."""
    send_members(
        attempt, {"runs/nobody-planned-this/candidate/1/result.json": result_bytes()}, at=at
    )
    return queries.refusals_of_plan(attempt.lane.plan)[0]


def make_sealed_lane(attempt: Attempt, *, at: datetime = NOW, **run: Any) -> list[Run]:
    """Deliver every run of the lane as `make_run` does with `run`, and seal the attempt."""
    runs = [make_run(attempt, key, at=at, **run) for key in run_keys(attempt)]
    seal_attempt(attempt, at=at)
    return runs


def seal_attempt(attempt: Attempt, *, at: datetime = NOW) -> None:
    """Seal an attempt with what was received of it."""
    sealing.seal(attempt, seal_request(attempt, final=True), at=at)


def seal_request(attempt: Attempt, *, final: bool) -> SealRequest:
    received = queries.segment_digests(attempt)
    return SealRequest(segments=len(received), digest=seal_digest(received), final=final)


def _class_of(path: str) -> str:
    return "record" if parse_path(path).kind in RECORD_KINDS else "bulk"
