"""Typed factories for evidence: they send real segments through the real intake."""

import base64
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from evalhub.protocol.archive import write_archive
from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Receipt, SegmentHeader
from evidence.store.models import Run
from evidence.store.operations import intake
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts
from tests.lanes.factories import CHECK_FINGERPRINT, NOW, make_attempt, make_plan

Json = dict[str, Any]

AFTER = NOW + timedelta(minutes=1)
_calls = count(1)


def turn(number: int, text: str | None = None, **fields: Any) -> Json:
    """Return a transcript line: an assistant's message unless `fields` say otherwise."""
    return {"turn": number, "role": "assistant", "kind": "message", "text": text, **fields}


def judge_line(value: float | None = 1.0, **fields: Any) -> Json:
    """Return a judge line of the rubric that the plan factory plans."""
    return {
        "call_id": str(UUID(int=next(_calls))),
        "rubric": "resolved",
        "stage": "check",
        "fingerprint": CHECK_FINGERPRINT,
        "value": value,
        "unscored_reason": None if value is not None else "judge_error",
        "cost_microusd": 0,
        "cost_source": "provider",
        **fields,
    }


def result(outcome: str = "passed", **fields: Any) -> Json:
    return {
        "outcome": outcome,
        "duration_ms": 12_400,
        "scores": {"latency_s": 12.4},
        "transcript_parts": 1,
        **fields,
    }


def run_items(
    key: RunKey,
    *,
    outcome: str = "passed",
    turns: Sequence[Json] | None = None,
    judged: Sequence[Json] | None = None,
    failure: Json | None = None,
    files: Mapping[str, bytes] | None = None,
    **fields: Any,
) -> dict[str, bytes]:
    """Return everything that a run leaves, by path; `fields` are those of the result."""
    lines = [turn(1, "Hello.", role="user"), turn(2, "Good bye.")] if turns is None else turns
    calls = [judge_line(1.0 if outcome == "passed" else 0.0)] if judged is None else judged
    items = {
        format_path(ItemPath(ItemKind.RESULT, key)): _json(result(outcome, **fields)),
        format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=1)): ndjson(lines),
    }
    if calls:
        items[format_path(ItemPath(ItemKind.JUDGE, key, part=1))] = ndjson(calls)
    if failure is not None:
        items[format_path(ItemPath(ItemKind.FAILURE, key))] = _json(failure)
    for name, content in (files or {}).items():
        items[format_path(ItemPath(ItemKind.FILE, key, name=name))] = content
    return items


def ndjson(lines: Sequence[Json]) -> bytes:
    return b"".join(_json(line) + b"\n" for line in lines)


def send(attempt: Attempt, items: Mapping[str, bytes], *, at: datetime = AFTER) -> list[Receipt]:
    """Send items of an attempt as one segment of each class; return the receipts."""
    bulk = {path: data for path, data in items.items() if _is_bulk(path)}
    record = {path: data for path, data in items.items() if path not in bulk}
    seq = attempt.segments.count()
    receipts = []
    for class_, members in (("record", record), ("bulk", bulk)):
        if members:
            seq += 1
            receipts.append(_send(attempt, seq, class_, members, at=at))
    return receipts


def make_run(
    scenario: str = "order-lookup",
    *,
    plan: Plan | None = None,
    attempt: Attempt | None = None,
    epoch: int = 1,
    at: datetime = AFTER,
    **fields: Any,
) -> Run:
    """Send one run of the lane that owns its key; `fields` are those of `run_items`."""
    plan = plan or (attempt.lane.plan if attempt is not None else make_plan())
    key = RunKey(scenario, "candidate", epoch)
    lane = next(
        lane.name for lane in plan_queries.plan_document(plan).lanes if key in lane.run_keys
    )
    newest = plan_queries.newest_attempts(plan)[lane]
    attempt = attempt or newest or make_attempt(plan, lane)
    send(attempt, run_items(key, **fields), at=at)
    return Run.objects.get(attempt=attempt, scenario=scenario, epoch=epoch)


def seal(attempt: Attempt, *, at: datetime = AFTER) -> None:
    """End an attempt as its lane would."""
    attempts.seal_attempt(attempt, at=at)


def _send(
    attempt: Attempt, seq: int, class_: str, members: Mapping[str, bytes], *, at: datetime
) -> Receipt:
    plan = attempt.lane.plan
    header = SegmentHeader(
        project=plan.project.name,
        plan=plan.digest,
        lane=attempt.lane.name,
        attempt=attempt.key,
        seq=seq,
        class_=class_,
        tested_sha=plan.tested_sha,
        created_at=at,
    )
    file = io.BytesIO()
    write_archive(file, header, members.items())
    data = file.getvalue()
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    received = intake.receive_segment(
        attempt,
        seq,
        stream=io.BytesIO(data),
        length=len(data),
        content_digest=f"sha-256=:{digest}:",
        at=at,
    )
    return received.receipt


def _is_bulk(path: str) -> bool:
    return any(word in path for word in ("/transcript.", "/files/", "/logs/"))


def _json(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
