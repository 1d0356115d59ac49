"""The plan: the canonical, digest-named list of what should run, where, and what it must leave."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from evalhub.protocol.policy import Event, Stage, Tier
from evalhub.protocol.scalars import (
    Commit,
    Count,
    DigestText,
    Label,
    Line,
    Name,
    Ordinal,
    PoolMicroUsd,
    ProjectName,
    Record,
    ScenarioId,
    Time,
)
from evalhub.protocol.suite import Scenario, refuse_repeated

LaneKind = Literal["ordinary", "baseline", "advisory", "rejudge"]
GuardResult = Literal["ok", "failed", "skipped"]


class RunKey(NamedTuple):
    """A scenario in an arm, the n-th time. Exactly one lane owns it."""

    scenario: str
    arm: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.scenario}/{self.arm}/{self.epoch}"


class SuiteReference(Record):
    name: Name
    version: Label
    digest: DigestText
    cohesive: list[Label] = []
    memory_categories: list[Label] = []


class Source(Record):
    """Where the plan comes from. Only `event` must be known."""

    event: Event
    repository_id: Count | None = None
    ref: Line | None = None
    pull_request: Count | None = None
    head_sha: Commit | None = None
    tested_sha: Commit | None = None
    base_sha: Commit | None = None
    workflow_run_id: Count | None = None
    lockfile_digest: DigestText | None = None
    image_digest: DigestText | None = None
    input_digest: DigestText | None = None


class Arm(Record):
    """What is compared: a subject on a model, clean or under a named condition."""

    name: Name
    subject: Label
    model: Label
    condition: Name
    sha: Commit | None = None

    @property
    def is_baseline(self) -> bool:
        return self.name.startswith("baseline:")


class StageReference(Record):
    """The fingerprint of one stage of one judged rubric: scores compare only within it."""

    rubric: Name
    stage: Stage
    fingerprint: DigestText


class Exclusion(Record):
    category: Label
    reason: Line


class Expects(Record):
    """Which evidence a run and a lane must leave."""

    run: list[Literal["result", "transcript", "judge"]] = ["result"]
    lane: list[Label] = []
    """`preflight`, `environment`, `redactions`, or `log:<name>`."""


class SimulatorReference(Record):
    name: Name
    build: DigestText
    seed_digest: DigestText | None = None


class Environment(Record):
    tier: Tier
    simulator: SimulatorReference | None = None


class PlannedLane(Record):
    """A worker of the plan and the run keys that it owns."""

    name: Name
    kind: LaneKind
    categories: list[Label]
    memory: bool
    runs: list[tuple[ScenarioId, Name, Ordinal]]
    expects: Expects
    environment: Environment
    pool: Name | None = None
    budget_microusd: PoolMicroUsd | None = None
    timeout_minutes: int = Field(ge=1, le=10_080)
    weight_minutes: float = Field(default=0.0, ge=0)
    jobs: int = Field(default=1, ge=1, le=256)

    @property
    def run_keys(self) -> list[RunKey]:
        return [RunKey(*run) for run in self.runs]

    @property
    def is_required(self) -> bool:
        return self.kind in {"ordinary", "baseline"}


class Guard(Record):
    """What was checked before anything scarce was used, and how to mend it."""

    name: Label
    expected: object = None
    observed: object = None
    result: GuardResult
    checked_at: Time
    fix: Line


class Limits(Record):
    ordinary: int = Field(ge=1, le=256)
    baseline: int = Field(ge=0, le=256)
    max_parallel: int = Field(ge=1, le=256)


class Plan(Record):
    """Version 1 of the plan. Its digest is taken over the document as it was sent."""

    schema_: Literal["evalhub.plan/1"] = Field(alias="schema")
    kind: Literal["gate", "rejudge"]
    project: ProjectName
    suite: SuiteReference
    policy_digest: DigestText
    source: Source
    arms: list[Arm] = Field(min_length=1)
    conditions: dict[Name, dict[str, object]] = {}
    rubrics: list[Name] = Field(min_length=1)
    stages: list[StageReference] = []
    scenarios: list[Scenario] = Field(min_length=1)
    excluded: list[Exclusion] = []
    lanes: list[PlannedLane] = Field(min_length=1)
    guards: list[Guard] = []
    baseline_reason: Line | None = None
    limits: Limits
    lane_map_digest: DigestText | None = None
    """Set when the lanes were made from a lane map: then no two ordinary lanes share a category."""
    durations_digest: DigestText | None = None
    deadline_minutes: int = Field(ge=1, le=43_200)

    @model_validator(mode="after")
    def _names_each_thing_once(self) -> Self:
        refuse_repeated("arms", (arm.name for arm in self.arms))
        refuse_repeated("scenarios", (scenario.id for scenario in self.scenarios))
        refuse_repeated("lanes", (lane.name for lane in self.lanes))
        refuse_repeated("rubrics", self.rubrics)
        refuse_repeated("stages", (f"{s.rubric}/{s.stage}" for s in self.stages))
        refuse_repeated("guards", (guard.name for guard in self.guards))
        refuse_repeated("excluded", (exclusion.category for exclusion in self.excluded))
        return self

    def lane(self, name: str) -> PlannedLane:
        """Return the lane of that name.

        Raises:
            KeyError: if the plan has none.
        """
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(name)

    def arm(self, name: str) -> Arm:
        """Return the arm of that name; raise KeyError if the plan has none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)
