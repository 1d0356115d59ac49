"""Runs as trajectories for training: transcript, scores, where it ran, and what was broken on purpose."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db.models import Count, Max

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.plan import Plan as PlanDocument
from evidence.reader.queries import records
from evidence.store import queries as store
from evidence.store.models import Item, Run, Score
from lanes.plans import queries as plans
from lanes.plans.models import Plan

Json = dict[str, Any]
_RUNS_AT_ONCE = 100
_BODY_PREFIX = "body-"


class KnownRuns(NamedTuple):
    """The runs that a plan has at one moment. Runs come, and never go."""

    total: int
    newest: int


def known_runs(plan: Plan) -> KnownRuns:
    """Return which runs a plan has now."""
    found = Run.objects.filter(plan=plan).aggregate(count=Count("pk"), newest=Max("pk"))
    return KnownRuns(found["count"], found["newest"] or 0)


def trajectories(plan: Plan, known: KnownRuns) -> Iterator[Json]:
    """Yield the known runs of a plan, by run key and attempt.

    What evidence says is given as it was sent, redaction markers included. A run of which evidence is
    damaged says so in `unreadable` and has neither transcript nor result.
    """
    context = _Context.of(plan)
    for run in store.runs_of_plan(plan).filter(pk__lte=known.newest).iterator(_RUNS_AT_ONCE):
        try:
            yield _identity(run, context) | _content(run)
        except (store.EvidenceDamagedError, store.EvidenceRemovedError) as error:
            yield _identity(run, context) | {"unreadable": error.detail}


class _Context(NamedTuple):
    """What a plan says of its runs."""

    digest: str
    document: PlanDocument
    arms: dict[str, Any]
    scenarios: dict[str, Any]
    lanes: dict[str, Any]

    @classmethod
    def of(cls, plan: Plan) -> "_Context":
        document = plans.plan_document(plan)
        return cls(
            plan.digest,
            document,
            {arm.name: arm for arm in document.arms},
            {scenario.id: scenario for scenario in document.scenarios},
            {lane.name: lane for lane in document.lanes},
        )


def _identity(run: Run, context: _Context) -> Json:
    arm, scenario = context.arms[run.arm], context.scenarios[run.scenario]
    environment = context.lanes[run.lane.name].environment
    condition = context.document.conditions.get(arm.condition)
    return {
        "schema": "evalhub.trajectory/1",
        "project": context.document.project,
        "plan": context.digest,
        "suite": context.document.suite.model_dump(mode="json"),
        "scenario": scenario.model_dump(mode="json"),
        "arm": arm.model_dump(mode="json"),
        "epoch": run.epoch,
        "lane": run.lane.name,
        "attempt": {"key": run.attempt.key, "number": run.attempt.number},
        "tier": environment.tier,
        "simulator": environment.simulator and environment.simulator.model_dump(mode="json"),
        "condition": condition,
        "outcome": run.outcome,
        "code": run.code,
        "scores": _scores(run),
    }


def _scores(run: Run) -> Json:
    """Return the values of each rubric by stage, the mean of its repeats."""
    found: dict[str, list[Json]] = defaultdict(list)
    rows = Score.objects.filter(run=run).order_by("rubric", "stage", "fingerprint")
    for row in rows:
        found[row.rubric].append(
            {
                "stage": row.stage,
                "fingerprint": row.fingerprint or None,
                "value": row.value,
                "repeats": row.repeats,
            }
        )
    return dict(found)


def _content(run: Run) -> Json:
    items = list(run.items.select_related("segment").order_by("kind", "part", "id"))
    bodies = {
        f"sha256:{item.name.removeprefix(_BODY_PREFIX).removeprefix('sha256:')}": item
        for item in items
        if item.kind == ItemKind.FILE and item.name and item.name.startswith(_BODY_PREFIX)
    }
    result, failure = _document(items, ItemKind.RESULT), _document(items, ItemKind.FAILURE)
    turns = list(_lines(items, ItemKind.TRANSCRIPT))
    faults = [turn["turn"] for turn in turns if turn["kind"] == "fault"]
    return {
        "result": result,
        "failure": failure,
        "faults": {"delivered": (result or {}).get("faults_delivered", 0), "turns": faults},
        "judge": [line.model_dump(mode="json") for line in records.judge_lines(run)],
        "transcript": [_with_body(turn, bodies) for turn in turns],
    }


def _with_body(turn: Json, bodies: dict[str, Item]) -> Json:
    """Return a turn whose long text, if it has one, stands where a short one would."""
    body = bodies.get(turn.get("body") or "")
    if body is None:
        return turn
    return {**turn, "text": store.shown_bytes(body).decode(errors="replace")}


def _document(items: list[Item], kind: ItemKind) -> Json | None:
    for item in items:
        if item.kind == kind:
            document: Json = json.loads(store.shown_bytes(item))
            return document
    return None


def _lines(items: list[Item], kind: ItemKind) -> Iterator[Json]:
    for item in items:
        if item.kind == kind:
            for line in store.shown_bytes(item).split(b"\n"):
                if line.strip():
                    yield json.loads(line)
