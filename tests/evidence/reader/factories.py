"""Typed factories for runs that are worth reading: given turns, judges' words, files."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from evalhub.protocol.paths import RECORD_KINDS, ItemKind, ItemPath, format_path, parse_path
from evalhub.protocol.plan import RunKey
from evidence.store.models import Run
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan
from tests.evidence.factories import judge_line, ndjson, result_bytes, send_members
from tests.lanes.factories import NOW, make_attempt, make_plan

Json = dict[str, Any]

AFTER = NOW + timedelta(minutes=1)


def turn(number: int, text: str | None = None, **fields: Any) -> Json:
    """Return a transcript line: an assistant's message unless `fields` say otherwise."""
    return {"turn": number, "role": "assistant", "kind": "message", "text": text, **fields}


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
        format_path(ItemPath(ItemKind.RESULT, key)): result_bytes(outcome, **fields),
        format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=1)): ndjson(*lines),
    }
    if calls:
        items[format_path(ItemPath(ItemKind.JUDGE, key, part=1))] = ndjson(*calls)
    if failure is not None:
        items[format_path(ItemPath(ItemKind.FAILURE, key))] = json.dumps(failure).encode()
    for name, content in (files or {}).items():
        items[format_path(ItemPath(ItemKind.FILE, key, name=name))] = content
    return items


def send(attempt: Attempt, items: Mapping[str, bytes], *, at: datetime = AFTER) -> None:
    """Send items of an attempt, as one segment of each class."""
    record = {path: data for path, data in items.items() if parse_path(path).kind in RECORD_KINDS}
    bulk = {path: data for path, data in items.items() if path not in record}
    for members in (record, bulk):
        if members:
            send_members(attempt, members, at=at)


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
    lanes = plan_queries.plan_document(plan).lanes
    lane = next(lane.name for lane in lanes if key in lane.run_keys)
    newest = plan_queries.newest_attempts(plan)[lane]
    attempt = attempt or newest or make_attempt(plan, lane)
    send(attempt, run_items(key, **fields), at=at)
    return Run.objects.get(attempt=attempt, scenario=scenario, epoch=epoch)
