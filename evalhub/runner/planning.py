"""From suite, policy and flags to `plan.json`: lanes by category or by weight, the same plan each time."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.refusals import BaseSuite, Refusal
from evalhub.protocol.registration import registration_refusals
from evalhub.protocol.suite import LaneMap, Suite, SuiteScenario
from evalhub.runner.allocation import cohesive_units, heaviest_first, parted_by_memory
from evalhub.runner.documents import JsonObject, Loaded, fault_lines
from evalhub.runner.errors import InputError
from evalhub.runner.visibility import too_small_words

DEFAULT_LANES = 4
_LEAST_TIMEOUT_MINUTES = 60
_LEAST_DEADLINE_MINUTES = 240
_LONGEST_TIMEOUT_MINUTES = 10_080
_LONGEST_DEADLINE_MINUTES = 43_200


class ArmChoice(NamedTuple):
    """An arm as `--arm NAME=SUBJECT:MODEL` gives it; its commit comes from the source."""

    name: str
    subject: str
    model: str
    condition: str = "clean"

    @property
    def is_baseline(self) -> bool:
        return self.name.startswith("baseline:")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """All that a plan is made of. None leaves a field to its default."""

    project: str
    suite: Loaded[Suite]
    policy: Loaded[Policy]
    arms: Sequence[ArmChoice]
    source: JsonObject
    tier: str
    lane_map: Loaded[LaneMap] | None = None
    lanes: int | None = None
    baseline_lanes: int = 1
    epochs: int = 1
    jobs: int = 1
    excluded: dict[str, str] = field(default_factory=dict)
    conditions: JsonObject = field(default_factory=dict)
    rubrics: Sequence[str] | None = None
    stages: Sequence[JsonObject] = ()
    guards: Sequence[JsonObject] = ()
    simulator: JsonObject | None = None
    pool: str | None = None
    budget_microusd: int | None = None
    expects_run: Sequence[str] | None = None
    expects_lane: Sequence[str] = ("preflight", "environment", "log:agent")
    timeout_minutes: int | None = None
    deadline_minutes: int | None = None
    limit_ordinary: int | None = None
    limit_baseline: int | None = None
    max_parallel: int | None = None
    baseline_reason: str | None = None


class _Share(NamedTuple):
    """What one lane is to run, before it is written down."""

    name: str
    kind: str
    categories: list[str]
    scenarios: Sequence[SuiteScenario]
    arms: Sequence[ArmChoice]
    memory: bool


class BuiltPlan(NamedTuple):
    """A plan that can be registered, and what a person should know about it."""

    document: JsonObject
    plan: Plan
    digest: str
    notes: list[str]


class PlanRefusedError(InputError):
    """A plan breaks rules of registration; the message has one line for each."""


def build_plan(request: PlanRequest, *, at: datetime) -> BuiltPlan:
    """Return the plan for a request. Equal requests give plans with equal digests.

    Raises:
        PlanRefusedError: if registration would refuse it, with every reason.
        InputError: if a flag does not fit the suite, or a field is not what WIRE defines.
    """
    _refuse_unfit(request)
    excluded = _exclusions(request)
    shares = [*_ordinary_shares(request, excluded), *_baseline_shares(request, excluded)]
    document = _document(request, sorted(shares), excluded)
    base = BaseSuite(request.suite.digest, request.suite.model)
    plan = checked_plan(document, policy=request.policy.model, base=base, at=at)
    return BuiltPlan(document, plan, document_digest(document), _notes(request, plan))


def checked_plan(
    document: JsonObject, *, policy: Policy, base: BaseSuite | None, at: datetime
) -> Plan:
    """Return a document as the plan that the server would register.

    Raises:
        PlanRefusedError: with every reason of registration, each with its mend.
        InputError: if the document is no plan.
    """
    try:
        plan = parse_document(Plan, json.dumps(document))
    except DocumentError as error:
        lines = fault_lines(error.misspelt_first())
        raise InputError(f"The plan is not valid:{lines}") from None
    refusals = registration_refusals(plan, policy=policy, base=base, at=at)
    if refusals:
        raise PlanRefusedError(refusal_text(refusals))
    return plan


def refusal_text(refusals: Iterable[Refusal]) -> str:
    """Return refusals as one line each: where, what it was, what was expected, how to mend it."""
    lines = [
        f"  {r.code}: {r.pointer} was {r.got}; expected {r.expected}. {r.fix}" for r in refusals
    ]
    return "The plan would be refused:\n" + "\n".join(lines)


def _refuse_unfit(request: PlanRequest) -> None:
    known = {scenario.category for scenario in request.suite.model.scenarios}
    if not request.arms:
        raise InputError("--arm was absent; expected at least one --arm NAME=SUBJECT:MODEL.")
    if all(arm.is_baseline for arm in request.arms):
        raise InputError("--arm named baseline arms only; expected at least one arm to be judged.")
    for category in request.excluded:
        if category not in known:
            raise InputError(
                f"--exclude named category {category!r}; expected one of {_listed(known)}."
            )
    if request.lane_map is None:
        return
    if request.lanes is not None:
        raise InputError("--lanes was given beside --lane-map; expected one of them, not both.")
    mapped = request.lane_map.model
    for category in sorted({c for share in mapped.lanes for c in share.categories} - known):
        raise InputError(
            f"The lane map gives category {category!r} to a lane, but the suite has no scenario of "
            f"it; expected one of {_listed(known)}."
        )


def _exclusions(request: PlanRequest) -> dict[str, str]:
    mapped = request.lane_map.model.excluded if request.lane_map is not None else {}
    excluded = {**mapped, **request.excluded}
    shares = request.lane_map.model.lanes if request.lane_map is not None else []
    for share in shares:
        both = sorted(set(share.categories) & set(excluded))
        if both:
            raise InputError(
                f"Category {both[0]!r} is excluded and given to lane {share.lane!r}; "
                "expected one of the two."
            )
    return excluded


def _planned(request: PlanRequest, excluded: dict[str, str]) -> list[SuiteScenario]:
    return [s for s in request.suite.model.scenarios if s.category not in excluded]


def _ordinary_shares(request: PlanRequest, excluded: dict[str, str]) -> list[_Share]:
    arms = [arm for arm in request.arms if not arm.is_baseline]
    if request.lane_map is None:
        wanted = request.lanes or request.limit_ordinary or DEFAULT_LANES
        return _weighed_shares(request, excluded, arms=arms, lanes=wanted, kind="ordinary")
    needs = set(request.suite.model.memory_categories)
    planned = _planned(request, excluded)
    return [
        _Share(
            share.lane,
            "ordinary",
            sorted(share.categories),
            [scenario for scenario in planned if scenario.category in share.categories],
            arms,
            bool(needs & set(share.categories)),
        )
        for share in request.lane_map.model.lanes
    ]


def _baseline_shares(request: PlanRequest, excluded: dict[str, str]) -> list[_Share]:
    arms = [arm for arm in request.arms if arm.is_baseline]
    if not arms:
        return []
    needs = set(request.suite.model.memory_categories)
    categories = {scenario.category for scenario in _planned(request, excluded)}
    # A lane never mixes memory with others, so a suite with both needs one lane more.
    lanes = request.baseline_lanes + bool(categories & needs and categories - needs)
    return _weighed_shares(request, excluded, arms=arms, lanes=lanes, kind="baseline")


def _weighed_shares(
    request: PlanRequest,
    excluded: dict[str, str],
    *,
    arms: Sequence[ArmChoice],
    lanes: int,
    kind: str,
) -> list[_Share]:
    suite = request.suite.model
    units = cohesive_units(_planned(request, excluded), cohesive=suite.cohesive)
    parted = parted_by_memory(units, memory_categories=suite.memory_categories)
    with_memory, others = parted[True], parted[False]
    if with_memory and others and lanes < 2:
        raise InputError(
            f"--lanes was {lanes}; expected at least 2, because the categories that need memory "
            f"({_listed(suite.memory_categories)}) take a lane of their own."
        )
    shares = heaviest_first(others, lanes=lanes - bool(with_memory))
    named = [(f"{kind}-{i}", share, False) for i, share in enumerate(shares, 1)]
    if with_memory:
        named.append(("memory-1" if kind == "ordinary" else f"{kind}-memory-1", with_memory, True))
    return [
        _Share(
            name,
            kind,
            sorted({category for unit in share for category in unit.categories}),
            [scenario for unit in share for scenario in unit.scenarios],
            arms,
            memory,
        )
        for name, share, memory in named
    ]


def _document(
    request: PlanRequest, shares: Sequence[_Share], excluded: dict[str, str]
) -> JsonObject:
    suite = request.suite.model
    lanes = [_lane(request, share) for share in shares]
    kinds = [share.kind for share in shares]
    timeouts = [lane["timeout_minutes"] for lane in lanes]
    return {
        "schema": "evalhub.plan/1",
        "kind": "gate",
        "project": request.project,
        "suite": {
            "name": suite.name,
            "version": suite.version,
            "digest": request.suite.digest,
            "cohesive": sorted(suite.cohesive),
            "memory_categories": sorted(suite.memory_categories),
        },
        "policy_digest": request.policy.digest,
        "source": request.source,
        "arms": [_arm(request, arm) for arm in sorted(request.arms)],
        "conditions": request.conditions,
        "rubrics": sorted(_rubrics(request)),
        "stages": sorted(request.stages, key=lambda s: (str(s.get("rubric")), str(s.get("stage")))),
        "scenarios": [_scenario(s) for s in sorted(suite.scenarios, key=lambda s: s.id)],
        "excluded": [{"category": c, "reason": excluded[c]} for c in sorted(excluded)],
        "lanes": lanes,
        "guards": sorted(request.guards, key=lambda guard: str(guard.get("name"))),
        "baseline_reason": request.baseline_reason,
        "limits": {
            "ordinary": request.limit_ordinary or max(kinds.count("ordinary"), 1),
            "baseline": request.limit_baseline
            if request.limit_baseline is not None
            else kinds.count("baseline"),
            "max_parallel": request.max_parallel or max(len(lanes), 1),
        },
        "lane_map_digest": request.lane_map.digest if request.lane_map is not None else None,
        "durations_digest": None,
        "deadline_minutes": request.deadline_minutes or _default_deadline(timeouts),
    }


def _lane(request: PlanRequest, share: _Share) -> JsonObject:
    runs = [
        [scenario.id, arm.name, epoch]
        for scenario in share.scenarios
        for arm in share.arms
        for epoch in range(1, request.epochs + 1)
    ]
    weight = sum(s.weight_minutes for s in share.scenarios) * len(share.arms) * request.epochs
    return {
        "name": share.name,
        "kind": share.kind,
        "categories": share.categories,
        "memory": share.memory,
        "runs": sorted(runs),
        "expects": {
            "run": list(request.expects_run or _default_expectation(request)),
            "lane": sorted(request.expects_lane),
        },
        "environment": {"tier": request.tier, "simulator": request.simulator},
        "pool": request.pool,
        "budget_microusd": request.budget_microusd,
        "timeout_minutes": request.timeout_minutes or _default_timeout(weight / request.jobs),
        "weight_minutes": round(weight, 3),
        "jobs": request.jobs,
    }


def _default_timeout(minutes: float) -> int:
    # Twice the expected time: a lane that is slower than that is stuck rather than slow.
    return min(max(_LEAST_TIMEOUT_MINUTES, math.ceil(2 * minutes)), _LONGEST_TIMEOUT_MINUTES)


def _default_deadline(timeouts: Sequence[int]) -> int:
    # Lanes may wait for each other's machines, so twice the longest of them.
    longest = max(timeouts, default=0)
    return min(max(_LEAST_DEADLINE_MINUTES, 2 * longest), _LONGEST_DEADLINE_MINUTES)


def _arm(request: PlanRequest, arm: ArmChoice) -> JsonObject:
    commit = "base_sha" if arm.is_baseline else "tested_sha"
    return {**arm._asdict(), "sha": request.source.get(commit)}


def _rubrics(request: PlanRequest) -> Sequence[str]:
    return request.rubrics or list(request.policy.model.rubrics)


def _default_expectation(request: PlanRequest) -> list[str]:
    known = request.policy.model.rubrics
    judged = any(known[name].source == "judge" for name in _rubrics(request) if name in known)
    return ["result", "transcript", "judge"] if judged else ["result", "transcript"]


def _scenario(scenario: SuiteScenario) -> JsonObject:
    fields: JsonObject = scenario.model_dump(mode="json", exclude={"weight_minutes"})
    return {
        **fields,
        "artifacts": sorted(scenario.artifacts),
        "tags": sorted(scenario.tags),
    }


def _notes(request: PlanRequest, plan: Plan) -> list[str]:
    ordinary = sum(lane.kind == "ordinary" for lane in plan.lanes)
    notes = [f"Category {e.category} is excluded: {e.reason}" for e in plan.excluded]
    if request.lanes is not None and ordinary < request.lanes:
        notes.append(
            f"{ordinary} of the {request.lanes} lanes that were asked for are enough: there are no "
            "more scenarios that can run apart from each other."
        )
    if plan.source.head_sha is None:
        notes.append("Without head_sha (--head-sha) there will be no check on a commit.")
    return notes + too_small_words(plan, request.policy.model)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, names)))
