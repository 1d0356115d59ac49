"""Typed factories for plans with scores: whole lanes delivered through the real intake."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from gates.verdicts.models import Baseline, BaselineKind
from gates.verdicts.operations.baselines import adopt_baseline
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations.lifecycle import close_plan
from lanes.projects.models import Project
from tests.evidence.factories import ndjson, result_bytes, run_keys, seal_attempt, send_members
from tests.lanes.factories import (
    BASE_SHA,
    NOW,
    make_attempt,
    make_policy,
    make_project,
    plan_document,
    register,
)

Json = dict[str, Any]

JUDGE_FINGERPRINT = bytes_digest(b"the judge of correctness")
OTHER_FINGERPRINT = bytes_digest(b"another judge")
CATEGORIES = ("disputes", "orders", "refunds")
SCENARIOS = [(f"{category}-{i:02d}", category) for category in CATEGORIES for i in range(8)]
"""24 scenarios in three categories, so three lanes of eight."""

NEXT_SHA = "1" * 40

RUBRICS: Json = {
    "correctness": {
        "kind": "continuous",
        "direction": "higher_is_better",
        "scale": [0, 10],
        "min_effect": 0.5,
        "gate": "block",
        "stages": ["check", "llm"],
    },
    "resolved": {
        "kind": "binary",
        "direction": "higher_is_better",
        "min_effect": 0.3,
        "gate": "block",
        "stages": ["check"],
    },
    "latency_s": {
        "kind": "tail",
        "rel_tol": 0.2,
        "abs_tol": 1.0,
        "ceiling": 60,
        "gate": "block",
        "from": "result",
    },
}
STAGES = [
    {"rubric": "correctness", "stage": "llm", "fingerprint": JUDGE_FINGERPRINT},
    {"rubric": "resolved", "stage": "check", "fingerprint": JUDGE_FINGERPRINT},
]


class Told(NamedTuple):
    """What one run leaves. A rubric that is not named in `judged` has no judge line."""

    judged: dict[str, float | None]
    latency_s: float | None
    outcome: str = "passed"
    fingerprint: str = JUDGE_FINGERPRINT


Teller = Callable[[RunKey], Told | None]
"""What a run key leaves; None for nothing at all."""


def chance(*parts: object) -> float:
    """Return a number from 0 to 1 that is the same for the same parts, on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def steady(tag: str, *, drop: float = 0.0, only: str | None = None, slower: float = 1.0) -> Teller:
    """Return an agent that scores about the same each time; `drop` lowers it, in one category if named."""

    def tell(key: RunKey) -> Told:
        hit = only is None or key.scenario.startswith(only)
        noise = chance(tag, key.scenario, key.arm, key.epoch)
        correctness = 6 + 2 * chance(key.scenario) + 0.4 * (noise - 0.5) - (drop if hit else 0)
        return Told(
            judged={"correctness": round(correctness, 3), "resolved": 1.0},
            latency_s=round((5 + 10 * noise) * slower, 3),
        )

    return tell


def make_gated_project(**policy: Any) -> Project:
    """Return a project whose policy has `RUBRICS`; `policy` replaces fields of it."""
    project = make_project()
    make_policy(project, **{"rubrics": RUBRICS, **policy})
    return project


def rubrics(**changes: Json) -> Json:
    """Return `RUBRICS` with fields of some rubrics changed."""
    return {name: {**rule, **changes.get(name, {})} for name, rule in RUBRICS.items()}


def make_scored_plan(
    project: Project,
    *,
    sha: str = NEXT_SHA,
    epochs: int = 2,
    scenarios: Sequence[tuple[str, str]] = tuple(SCENARIOS),
    event: str = "pull_request",
    lane: Json | None = None,
    edit: Callable[[Json], None] | None = None,
    **fields: Any,
) -> Plan:
    """Register a plan of one clean arm, with a lane for each category; `edit` changes its document."""
    policy = plan_queries.current_policy(project)
    assert policy is not None
    document = plan_document(
        project,
        policy_digest=policy.digest,
        epochs=epochs,
        scenarios=scenarios,
        source={"tested_sha": sha, "head_sha": sha, "event": event},
        lane={"expects": {"run": ["result", "judge"], "lane": []}, **(lane or {})},
        **{"rubrics": sorted(RUBRICS), "stages": STAGES, **fields},
    )
    if edit is not None:
        edit(document)
    return register(document, project=project)


def deliver(
    attempt: Attempt, tell: Teller, *, keys: Iterable[RunKey] | None = None, at: datetime = NOW
) -> None:
    """Send what `tell` says of the lane's run keys in one segment."""
    members: dict[str, bytes] = {}
    for key in run_keys(attempt) if keys is None else keys:
        told = tell(key)
        if told is not None:
            members |= run_members(key, told)
    send_members(attempt, members, at=at)


def run_members(key: RunKey, told: Told) -> dict[str, bytes]:
    """Return the files of one run."""
    folder = run_folder(key)
    scores = {"latency_s": told.latency_s}
    members = {
        f"{folder}/result.json": result_bytes(told.outcome, scores=scores, transcript_parts=0)
    }
    lines = [
        judge_line(rubric, value, fingerprint=told.fingerprint)
        for rubric, value in told.judged.items()
    ]
    if lines:
        members[f"{folder}/judge.1.ndjson"] = ndjson(*lines)
    return members


def judge_line(rubric: str, value: float | None, **fields: Any) -> Json:
    return {
        "call_id": str(uuid4()),
        "rubric": rubric,
        "stage": "llm" if rubric == "correctness" else "check",
        "fingerprint": JUDGE_FINGERPRINT,
        "repeat": 1,
        "value": value,
        "unscored_reason": None if value is not None else "judge_error",
        "cost_microusd": 0,
        "cost_source": "provider",
        **fields,
    }


def lane_names(plan: Plan) -> list[str]:
    return [lane.name for lane in plan_queries.plan_document(plan).lanes]


def run_lanes(
    plan: Plan, tell: Teller, *, lanes: Iterable[str] | None = None, at: datetime = NOW
) -> list[Attempt]:
    """Open an attempt of each lane, deliver and seal it."""
    attempts = []
    for name in lane_names(plan) if lanes is None else lanes:
        attempt = make_attempt(plan, name, at=at)
        deliver(attempt, tell, at=at)
        seal_attempt(attempt, at=at)
        attempts.append(attempt)
    return attempts


def concluded(plan: Plan, *, at: datetime = NOW) -> Conclusion:
    """Conclude a finished plan; close it first where it is not."""
    if not plan_queries.is_finished(plan, at=at):
        close_plan(plan, at=at)
    conclusion = conclude(plan, at=at)
    assert conclusion is not None
    return conclusion


def make_baseline(
    project: Project,
    tell: Teller | None = None,
    *,
    kind: BaselineKind = BaselineKind.ROLLING,
    **fields: Any,
) -> Baseline:
    """Run a plan of the base commit, conclude it, and adopt it by name."""
    plan = make_scored_plan(project, **{"sha": BASE_SHA, **fields})
    run_lanes(plan, tell or steady("baseline"))
    concluded(plan)
    plan.refresh_from_db()
    return adopt_baseline(
        project, plan, kind=kind, reason="the first night", actor="user:ada", at=NOW
    )


def make_conclusion(project: Project, tell: Teller, **fields: Any) -> Conclusion:
    """Run a candidate plan as `tell` says and conclude it."""
    plan = make_scored_plan(project, **fields)
    run_lanes(plan, tell)
    return concluded(plan)


def verdicts(conclusion: Conclusion, **wanted: object) -> list[Json]:
    """Return the verdict rows with these fields; overall ones unless a category is asked for."""
    wanted = {"category": None, **wanted}
    return [
        row
        for row in conclusion.content["verdicts"]
        if all(row[field] == value for field, value in wanted.items())
    ]


def verdict(conclusion: Conclusion, **wanted: object) -> Json:
    """Return the one verdict row with these fields."""
    (row,) = verdicts(conclusion, **wanted)
    return row


def codes(conclusion: Conclusion) -> dict[str, Json]:
    """Return the findings by code."""
    return {row["code"]: row for row in conclusion.content["findings"]}
