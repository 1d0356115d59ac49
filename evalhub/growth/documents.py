"""The suites, policies and plans of a generated store, as the wire has them."""

from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.plan import RunKey
from evalhub.protocol.scalars import rfc3339

Json = dict[str, Any]

ARM = "candidate"
POOL = "judge-main"
LANE_BUDGET_MICROUSD = 2_000_000
DEADLINE_MINUTES = 240


class LaneShape(NamedTuple):
    """A lane of every plan of a suite."""

    name: str
    kind: str
    categories: tuple[str, ...]


class Shape(NamedTuple):
    """What does not change about a suite: its lanes, how much each category holds, its judges."""

    suite: str
    lanes: tuple[LaneShape, ...]
    scenarios: int
    """Of each category."""
    epochs: int
    judged: tuple[str, ...]

    @property
    def rubrics(self) -> list[str]:
        return sorted([*self.judged, "latency_s"])

    @property
    def run_count(self) -> int:
        return sum(len(lane.categories) for lane in self.lanes) * self.scenarios * self.epochs

    def scenario_ids(self, category: str) -> list[str]:
        return [f"{category}-{number:02}" for number in range(1, self.scenarios + 1)]

    def run_keys(self, lane: LaneShape) -> list[RunKey]:
        """Return what a lane owns, in the order in which it runs."""
        return [
            RunKey(scenario, ARM, epoch)
            for category in lane.categories
            for scenario in self.scenario_ids(category)
            for epoch in range(1, self.epochs + 1)
        ]


SHAPES = (
    Shape(
        "support",
        (
            LaneShape("money", "ordinary", ("refunds", "invoices")),
            LaneShape("goods", "ordinary", ("orders", "shipping")),
            LaneShape("people", "ordinary", ("accounts", "disputes")),
            LaneShape("memory", "advisory", ("memory",)),
        ),
        scenarios=16,
        epochs=2,
        judged=("helpfulness", "resolved"),
    ),
    Shape(
        "routing",
        (
            LaneShape("first", "ordinary", ("triage", "language")),
            LaneShape("second", "ordinary", ("handover", "tone")),
        ),
        scenarios=12,
        epochs=4,
        judged=("resolved",),
    ),
)
STAGES = {"resolved": "check", "helpfulness": "llm"}


def fingerprint(rubric: str) -> str:
    """Return the fingerprint of the one stage that judges a rubric."""
    return document_digest({"judge": rubric, "prompt": 4})


def suite_document(shape: Shape, quarter: int) -> Json:
    """Return a suite as it was in a quarter of the year: each begins with one scenario rewritten."""
    return {
        "schema": "evalhub.suite/1",
        "name": shape.suite,
        "version": f"q{quarter + 1}",
        "scenarios": _scenarios(shape, quarter),
        "cohesive": [],
        "memory_categories": _memory_categories(shape),
    }


def policy_document(half: int) -> Json:
    """Return the policy of a half of the year; the second demands a little more."""
    return {
        "schema": "evalhub.policy/1",
        "rubrics": {
            "resolved": {
                "kind": "binary",
                "direction": "higher_is_better",
                "min_effect": 0.12 if half == 0 else 0.1,
                "gate": "block",
                "stages": [STAGES["resolved"]],
            },
            "helpfulness": {
                "kind": "continuous",
                "direction": "higher_is_better",
                "scale": [0, 10],
                "min_effect": 0.8,
                # A rubric that blocks would have to be in every plan; one suite has no judge for it.
                "gate": "warn",
                "stages": [STAGES["helpfulness"]],
            },
            "latency_s": {
                "kind": "tail",
                "rel_tol": 0.2,
                "abs_tol": 1.0,
                "ceiling": 120,
                "gate": "warn",
                "from": "result",
            },
        },
        "guards": {"required": ["agent_registered"], "max_age_minutes": 60},
        "isolation": dict.fromkeys(
            ["machine", "world", "mcp_session", "credential", "pool", "seed", "canary"],
            "not_claimed",
        ),
    }


class PlanFacts(NamedTuple):
    """What tells one plan of a suite from another."""

    project: str
    repository_id: int | None
    shape: Shape
    quarter: int
    suite_digest: str
    policy_digest: str
    event: str
    ref: str
    pull_request: int | None
    head_sha: str
    tested_sha: str
    base_sha: str
    workflow_run_id: int
    at: datetime


def plan_document(facts: PlanFacts) -> Json:
    """Return the plan that a CI job would have registered."""
    shape = facts.shape
    kinds = [lane.kind for lane in shape.lanes]
    return {
        "schema": "evalhub.plan/1",
        "kind": "gate",
        "project": facts.project,
        "suite": {
            "name": shape.suite,
            "version": f"q{facts.quarter + 1}",
            "digest": facts.suite_digest,
            "cohesive": [],
            "memory_categories": _memory_categories(shape),
        },
        "policy_digest": facts.policy_digest,
        "source": {
            "repository_id": facts.repository_id,
            "event": facts.event,
            "ref": facts.ref,
            "pull_request": facts.pull_request,
            "head_sha": facts.head_sha,
            "tested_sha": facts.tested_sha,
            "base_sha": facts.base_sha,
            "workflow_run_id": facts.workflow_run_id,
        },
        "arms": [
            {
                "name": ARM,
                "subject": f"{shape.suite}-agent",
                "model": "luna-6",
                "condition": "clean",
                "sha": facts.tested_sha,
            }
        ],
        "rubrics": shape.rubrics,
        "stages": [
            {"rubric": name, "stage": STAGES[name], "fingerprint": fingerprint(name)}
            for name in shape.judged
        ],
        "scenarios": _scenarios(shape, facts.quarter),
        "lanes": [_lane(shape, lane) for lane in shape.lanes],
        "guards": [
            {
                "name": "agent_registered",
                "expected": f"{shape.suite}-agent",
                "observed": [f"{shape.suite}-agent"],
                "result": "ok",
                "checked_at": rfc3339(facts.at),
                "fix": "pip install the agent",
            }
        ],
        "limits": {"ordinary": kinds.count("ordinary"), "baseline": 0, "max_parallel": len(kinds)},
        "deadline_minutes": DEADLINE_MINUTES,
    }


def _lane(shape: Shape, lane: LaneShape) -> Json:
    return {
        "name": lane.name,
        "kind": lane.kind,
        "categories": list(lane.categories),
        "memory": lane.categories == ("memory",),
        "runs": [list(key) for key in shape.run_keys(lane)],
        "expects": {"run": ["result", "transcript", "judge"], "lane": ["preflight", "log:agent"]},
        "environment": {"tier": "sandboxed_interactive"},
        "pool": POOL,
        "budget_microusd": LANE_BUDGET_MICROUSD,
        "timeout_minutes": 60,
        "weight_minutes": 30,
        "jobs": 2,
    }


@lru_cache(maxsize=64)
def _scenarios(shape: Shape, quarter: int) -> list[Json]:
    scenarios = [
        (category, scenario)
        for lane in shape.lanes
        for category in lane.categories
        for scenario in shape.scenario_ids(category)
    ]
    return [
        {
            "id": scenario,
            "category": category,
            # The n-th quarter has rewritten the n-th scenario.
            "digest": document_digest({"id": scenario, "rewritten": 0 < n + 1 <= quarter}),
            "artifacts": [f"prompt:{category}"],
            "tags": [],
            "file": f"evals/{category}/{scenario}.yaml",
        }
        for n, (category, scenario) in enumerate(scenarios)
    ]


def _memory_categories(shape: Shape) -> list[str]:
    return [c for lane in shape.lanes for c in lane.categories if c == "memory"]
