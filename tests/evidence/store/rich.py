"""A store with everything in it that reindexing has to make again, in two parts."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from django.db import transaction

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.messages import Heartbeat
from evalhub.protocol.paths import run_folder
from evalhub.protocol.tombstones import Cause, RemovalScope
from evidence.store.models import Refusal, Segment
from evidence.store.operations import counting, documents, purging, receipts, removals
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.operations.removals import Stock, Why
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts, lifecycle
from lanes.projects.models import Project
from tests.evidence.factories import (
    Json,
    first_run_key,
    judge_line,
    make_run,
    make_segment,
    ndjson,
    result_bytes,
    run_keys,
    seal_attempt,
    send_members,
    send_segment,
    transcript_bytes,
)
from tests.lanes.factories import NOW, make_attempt, make_plan, make_pool, make_project

BUILD = bytes_digest(b"payments 1.4")
ENVIRONMENT = {
    "tier": "sandboxed_interactive",
    "simulator": {"name": "payments", "build": BUILD, "seed_digest": bytes_digest(b"seed")},
}


class Clock:
    """Moves on by a second and some microseconds each time that it is asked."""

    def __init__(self) -> None:
        self._ticks: Iterator[int] = count(1)

    def __call__(self) -> datetime:
        return NOW + timedelta(seconds=next(self._ticks), microseconds=7)


class Plans(NamedTuple):
    first: Plan
    second: Plan
    silent: Plan


def call(name: str, cost: int | None = 100, value: float | None = 1.0, **fields: object) -> Json:
    """Return a judge line whose call has an id of its own by `name`."""
    return judge_line(value, call_id=str(uuid5(NAMESPACE_URL, name)), cost_microusd=cost, **fields)


def make_plans(project: Project, at: Clock) -> Plans:
    """Register two plans that will overlap, and one to which nothing is ever sent."""
    given = {"pool": "judge-main", "budget_microusd": 50_000, "environment": ENVIRONMENT}
    first = make_plan(project, at=at(), epochs=2, lane=given)
    second = make_plan(project, at=at(), lane=given, source={"head_sha": "d" * 40})
    return Plans(first, second, make_plan(project, at=at()))


def make_rich_project() -> Project:
    project = make_project("acme/rich")
    make_pool(project, limit_microusd=900_000)
    return project


def make_rich_store(project: Project, at: Clock) -> Plans:
    """Make both parts, let some of it be removed, and let the sweeps write what lies beside the rest."""
    plans = make_plans(project, at)
    attempt = make_first_part(plans, at)
    make_second_part(plans, attempt, at)
    remove_some(plans, attempt, at)
    sweep(at)
    return plans


def remove_some(plans: Plans, attempt: Attempt, at: Clock) -> None:
    """Have a person purge an attempt, with what was refused of it, and age take some transcripts."""
    reason, actor = "A customer's name was in it.", "user:maintainer"
    target = purging.one_attempt(plans.first, attempt.key)
    purging.purge(target, reason=reason, actor=actor, at=at())
    old = Segment.objects.filter(attempt__lane__plan=plans.second, segment_class="bulk")
    why = Why(Cause.RETENTION, RemovalScope.CLASS, "bulk", "retention", "Kept for 30 days.")
    with transaction.atomic():
        assert removals.order_removal(
            plans.second, Stock(old, Refusal.objects.none()), why, at=at()
        )


def sweep(at: Clock) -> None:
    receipts.sweep_receipts(at=at())
    counting.count_stored()
    while removals.sweep_removals(at=at()):
        pass
    documents.sweep_documents(at=at())


def make_first_part(plans: Plans, at: Clock) -> Attempt:
    """Let a lane of the first plan deliver, be superseded, and begin again; return that attempt."""
    superseded = make_attempt(plans.first, at=at())
    _deliver_what_counts(superseded, at)
    _deliver_what_is_refused(superseded, at)
    attempts.record_heartbeat(superseded, Heartbeat(phase="judging", done=3, total=9), at=at())
    newer = make_attempt(plans.first, at=at())
    # What comes for an attempt that was superseded is late.
    _send(superseded, {f"{_folder(superseded, 1)}/result.json": result_bytes()}, at)
    make_run(newer, at=at(), value=0.0)
    return newer


def make_second_part(plans: Plans, attempt: Attempt, at: Clock) -> None:
    """Let the plans overlap, seal lanes, conclude the first plan, and send it late evidence."""
    other = make_attempt(plans.second, at=at())
    _tell_of_the_same_calls(attempt, other, at)
    attempts.extend_budget(other, microusd=1234, at=at())
    seal_attempt(attempt, at=at())
    _send(attempt, {f"{_folder(attempt, 1)}/result.json": result_bytes()}, at)
    _send_broken(attempt, at)
    last = make_attempt(plans.first, "ordinary-2", at=at())
    for key in run_keys(last)[:2]:
        make_run(last, key, at=at(), outcome="agent_error", error=_error())
    lifecycle.close_plan(plans.first, at=at())
    _conclude(plans.first, at)
    # The lane was never sealed: what it sends now counts, and the plan runs again.
    make_run(last, run_keys(last)[2], at=at())
    _conclude(plans.first, at)
    _seal_then_begin_again(plans.second, at)
    Plan.objects.filter(pk=plans.silent.pk).update(cancelled_at=at())


def _deliver_what_counts(attempt: Attempt, at: Clock) -> None:
    folder = _folder(attempt)
    make_run(
        attempt, at=at(), judge_lines=[call("one"), call("two", None), call("failed", 5, None)]
    )
    # Again, with other evidence beside it: the items that were there count once.
    _send(
        attempt,
        {
            f"{folder}/transcript.1.ndjson": transcript_bytes(),
            f"{folder}/files/body": b"\x00\xff" * 5000,
            "lane/logs/agent.1.log": b"started\n",
        },
        at,
    )
    # A run without a result, and repeats in a second part.
    second = _folder(attempt, 1)
    _send(attempt, {f"{second}/judge.1.ndjson": ndjson(call("three", 11, 0.0))}, at)
    repeated = ndjson(call("four", 12, 1.0, repeat=2), call("three", 11, 0.0))
    _send(attempt, {f"{second}/judge.2.ndjson": repeated}, at)
    probe = {
        "probe": "pi.create",
        "digest": bytes_digest(b"pi.create"),
        "category": "happy",
        "source": "recorded",
        "result": "mismatch",
        "paths": ["/data/*"],
    }
    _send(attempt, {"lane/probes.1.ndjson": ndjson(probe)}, at)


def _deliver_what_is_refused(attempt: Attempt, at: Clock) -> None:
    folder = _folder(attempt)
    result = f"{folder}/result.json"
    _send(attempt, {result: result_bytes("failed"), "runs/x/y/1/result.json": b"{}"}, at)
    _send(attempt, {f"{folder}/judge.3.ndjson": ndjson(call("one", 100, 0.0)) + b"broken\n"}, at)
    _send(attempt, {f"{folder}/judge.4.ndjson": ndjson(call("one", 100, 0.0))}, at)
    _send(attempt, {f"{folder}/files/a": b"text", "neither/here/nor/there": b"text"}, at)
    _send(attempt, {"lane/preflight.json": b'{"guards": "none"}'}, at)
    _send(attempt, {f"{folder}/files/b": b"text"}, at, tested_sha="e" * 40)
    early = attempt.opened_at - timedelta(minutes=6)
    _send(attempt, {"lane/redactions.json": b"{}"}, at, created_at=early)
    _send_broken(attempt, at)
    _send_broken(attempt, at, records="evalhub.records/9")
    _send_broken(attempt, at, lane="ordinary-2")


def _tell_of_the_same_calls(attempt: Attempt, other: Attempt, at: Clock) -> None:
    """Let two plans tell of calls at other costs; now the one is the first, and now the other."""
    _send(other, {f"{_folder(other)}/judge.1.ndjson": ndjson(call("shared", 70))}, at)
    _send(attempt, {f"{_folder(attempt)}/judge.2.ndjson": ndjson(call("shared", 71))}, at)
    _send(attempt, {f"{_folder(attempt)}/judge.3.ndjson": ndjson(call("common", 80))}, at)
    _send(other, {f"{_folder(other)}/judge.2.ndjson": ndjson(call("common", 81))}, at)
    _send(other, {f"{_folder(other)}/judge.3.ndjson": ndjson(call("one", 9_999))}, at)


def _seal_then_begin_again(plan: Plan, at: Clock) -> None:
    sealed = make_attempt(plan, "ordinary-2", at=at())
    make_run(sealed, at=at())
    seal_attempt(sealed, at=at())
    begun = make_attempt(plan, "ordinary-2", at=at())
    attempts.record_heartbeat(begun, Heartbeat(phase="running", done=1, total=2), at=at())
    attempts.mark_silent_attempts(at=at() + timedelta(hours=1))


def _conclude(plan: Plan, at: Clock) -> None:
    version = Plan.objects.values_list("inputs_version", flat=True).get(pk=plan.pk)
    assert lifecycle.mark_concluded(plan, inputs_version=version, at=at())


def _folder(attempt: Attempt, number: int = 0) -> str:
    return run_folder(run_keys(attempt)[number] if number else first_run_key(attempt))


def _send(attempt: Attempt, members: dict[str, bytes], at: Clock, **header: Any) -> None:
    # The class follows from the first member; a stranger to it is refused, which is wanted too.
    made_at = header.pop("created_at", None)
    now = at()
    created = {"created_at": made_at} if made_at is not None else {}
    send_members(attempt, members, at=now, **header, **created)


def _send_broken(attempt: Attempt, at: Clock, **header: Any) -> None:
    """Send a segment that is refused as a whole, with a judge call that was paid for."""
    lines = ndjson(call(f"broken {attempt.key} {sorted(header)}", 33))
    members = {f"{_folder(attempt)}/judge.9.ndjson": lines}
    data = make_segment(attempt, members, seq=900, at=at(), **header)
    if not header:
        data = data[:-30]
    try:
        send_segment(attempt, data, seq=900, at=at())
    except SegmentRefusedError:
        return
    raise AssertionError("the segment was to be refused")


def _error() -> Json:
    return {"origin": "agent", "type": "ToolLoopError", "message": "went round in circles"}
