"""Shapes of this room's answers."""

import json
from datetime import datetime

from django.urls import reverse
from rest_framework.request import Request

from evalhub.protocol.faults import parse_document
from evalhub.protocol.scalars import Record, rfc3339
from evalhub.web import logs
from lanes.fidelity.queries import BuildRate
from lanes.plans import queries
from lanes.plans.models import Attempt, Plan


class _NoContent(Record):
    """A body that says nothing."""


def addressed_attempt(key: str) -> Attempt:
    """Return the attempt that an address names, and name its plan in the log from here on.

    Raises:
        NotFoundError: if there is none.
    """
    attempt = queries.attempt_with_key(key)
    logs.bind_plan(attempt.lane.plan.digest)
    return attempt


def expect_no_content(body: bytes) -> None:
    """Return if a body is empty or `{}`; what it says otherwise would be lost unseen.

    Raises:
        DocumentError: that names the first unknown field.
    """
    if body.strip():
        parse_document(_NoContent, body)


def plan_slice(plan: Plan, lane: str) -> dict[str, object]:
    """Return the plan's document without the other lanes and the scenarios that only they run."""
    document: dict[str, object] = json.loads(plan.document)
    planned = queries.plan_document(plan).lane(lane)
    wanted = {key.scenario for key in planned.run_keys}
    document["lanes"] = [row for row in _rows(document, "lanes") if row["name"] == lane]
    document["scenarios"] = [row for row in _rows(document, "scenarios") if row["id"] in wanted]
    return document


def plan_row(plan: Plan) -> dict[str, object]:
    """Return a plan's place in the world and its state, without its document."""
    return {
        "digest": plan.digest,
        "project": plan.project.name,
        "suite": plan.suite_name,
        "kind": plan.kind,
        "event": plan.event,
        "ref": plan.ref,
        "pull_request": plan.pull_request,
        "head_sha": plan.head_sha,
        "tested_sha": plan.tested_sha,
        "workflow_run_id": plan.workflow_run_id,
        "runs": plan.run_count,
        "verified": plan.is_verified,
        "foreign": plan.is_foreign,
        "origin": origin_row(plan),
        "verified_source": plan.verified_source,
        "state": plan.state.lower(),
        "generation": plan.generation,
        "superseded": plan.superseded_at is not None,
        "cancelled": plan.cancelled_at is not None,
        "registered_at": rfc3339(plan.registered_at),
        "deadline_at": rfc3339(plan.deadline_at),
        "closed_at": _time(plan.closed_at),
        "concluded_at": _time(plan.concluded_at),
        "cancelled_at": _time(plan.cancelled_at),
        "cancel_reason": plan.cancel_reason or None,
    }


def origin_row(plan: Plan) -> dict[str, object] | None:
    """Return where a foreign plan came from; what was concluded there is told and not believed."""
    origin = queries.origin_of(plan)
    if origin is None:
        return None
    told = origin.conclusion or {}
    return {
        "project": origin.project,
        "instance": origin.instance,
        "state": origin.state,
        "exported_at": rfc3339(origin.exported_at),
        "exported_by": origin.exported_by,
        "imported_at": rfc3339(origin.imported_at),
        "imported_by": origin.imported_by,
        "archive": origin.archive_sha256,
        "conclusion": {name: told.get(name) for name in _TOLD} if told else None,
    }


_TOLD = ("conclusion", "title", "decided_at", "engine_version")


def addressed_row(request: Request, plan: Plan) -> dict[str, object]:
    """Return `plan_row` with the address of the plan's page."""
    page = request.build_absolute_uri(reverse("plan", args=[plan.digest]))
    return {"url": page, **plan_row(plan)}


def lane_rows(plan: Plan, *, only: str | None = None) -> list[dict[str, object]]:
    """Return the plan's lanes, or `only` one of them, each with its newest attempt."""
    newest = queries.newest_attempts(plan)
    return [
        {
            "name": lane.name,
            "kind": lane.kind,
            "required": lane.is_required,
            "runs": lane.run_count,
            "attempt": _attempt_row(newest[lane.name]),
        }
        for lane in queries.lanes_of(plan)
        if only in {None, lane.name}
    ]


def schedule_row(state: queries.ScheduleState) -> dict[str, object]:
    """Return a nightly that is waited for, and where it stands."""
    schedule, seen = state.schedule, state.last_seen
    return {
        "suite": schedule.suite_name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "grace_minutes": schedule.grace_minutes,
        "paused": schedule.is_paused,
        "state": state.word,
        "last_due_at": _time(state.last_due_at),
        "next_due_at": _time(state.next_due_at),
        "last_seen_at": _time(seen.registered_at if seen is not None else None),
        "last_seen_plan": seen.digest if seen is not None else None,
        "missed": schedule.missed_count,
        "missed_since": _time(schedule.missed_since),
    }


def rate_row(rate: BuildRate) -> dict[str, object]:
    """Return what the probes of a plan say of one build; the rate is null where nothing was verified."""
    counts = rate.counts
    return {
        "simulator": rate.simulator,
        "build": rate.build,
        "probe_set": rate.probe_set,
        **counts._asdict(),
        "verified": counts.verified,
        "match_rate": counts.rate,
        "interval95": list(counts.interval) if counts.interval is not None else None,
        "mismatches": [mismatch._asdict() for mismatch in rate.mismatches],
    }


def _attempt_row(attempt: Attempt | None) -> dict[str, object] | None:
    if attempt is None:
        return None
    return {
        "attempt": attempt.key,
        "number": attempt.number,
        "state": attempt.state.lower(),
        "phase": attempt.phase,
        "done": attempt.done,
        "total": attempt.total,
        "opened_at": rfc3339(attempt.opened_at),
        "last_heard_at": rfc3339(attempt.last_heard_at),
        "ended_at": _time(attempt.ended_at),
    }


def _rows(document: dict[str, object], field: str) -> list[dict[str, object]]:
    rows = document[field]
    assert isinstance(rows, list)  # noqa: S101 - the document was a plan when it was registered
    return rows


def _time(at: datetime | None) -> str | None:
    return rfc3339(at) if at is not None else None
