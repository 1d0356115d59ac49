"""The policy: which rubrics decide, how large a drop matters, what must be proven."""

from typing import Literal, Self

from pydantic import Field, model_validator

from evalhub.protocol.scalars import DigestText, Label, Name, Record

Gate = Literal["block", "warn", "info"]
Claim = Literal["exclusive", "shared_declared", "equal", "not_claimed"]
Undecided = Literal["neutral", "action_required"]
Tier = Literal["llm_emulated", "sandboxed_interactive", "containerized", "live"]
Stage = Literal["check", "classifier", "llm", "human"]
Event = Literal["pull_request", "merge_group", "push", "schedule", "manual", "import"]

TIERS: tuple[Tier, ...] = ("llm_emulated", "sandboxed_interactive", "containerized", "live")
"""From the least to the most real environment."""


class Rubric(Record):
    """How one rubric is scored and when a change of it matters. Units are the rubric's own."""

    kind: Literal["continuous", "binary", "tail"]
    direction: Literal["higher_is_better", "lower_is_better"] | None = None
    scale: tuple[float, float] | None = None
    min_effect: float | None = Field(default=None, gt=0)
    ni_margin: float | None = Field(default=None, gt=0)
    category_min_effect: float | None = Field(default=None, gt=0)
    abs_floor: float | None = None
    gate: Gate
    fault_gate: Literal["block", "info"] = "info"
    stages: list[Stage] = []
    source: Literal["judge", "result"] = Field(default="judge", alias="from")
    q: float = Field(default=0.95, gt=0.5, lt=1)
    rel_tol: float = Field(default=0.20, ge=0)
    abs_tol: float = Field(default=0.0, ge=0)
    ceiling: float | None = None
    ni_tol: float = Field(default=0.5, gt=0)
    value_type: Literal["real", "count"] = "real"
    require: Literal["non_inferiority"] | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind != "tail" and (self.min_effect is None or self.direction is None):
            raise ValueError(f"direction and min_effect for a {self.kind} rubric")
        if self.source == "judge" and not self.stages:
            raise ValueError("stages for a rubric that is judged, or from: result")
        if self.scale is not None and self.scale[0] >= self.scale[1]:
            raise ValueError("a scale [low, high] with low below high")
        if len(set(self.stages)) != len(self.stages):
            raise ValueError("each stage once")
        return self


class Guards(Record):
    """The guards that must have passed before a plan is registered."""

    required: list[Label] = []
    max_age_minutes: int = Field(default=60, ge=1, le=10_080)


class EnvironmentRules(Record):
    """How real the environment must be."""

    minimum_tier: Tier = "llm_emulated"
    minimum_match_rate: float | None = Field(default=None, ge=0, le=1)


class Isolation(Record):
    """What lanes must prove that they did not share."""

    machine: Claim = "exclusive"
    world: Claim = "exclusive"
    mcp_session: Claim = "exclusive"
    credential: Claim = "exclusive"
    pool: Claim = "exclusive"
    seed: Claim = "equal"
    canary: Claim = "exclusive"


class Undecideds(Record):
    """What an inconclusive verdict means, by the event that asked for the run."""

    pull_request: Undecided = "neutral"
    merge_group: Undecided = "action_required"
    schedule: Undecided = "action_required"
    push: Undecided = "action_required"
    manual: Undecided = "neutral"
    import_: Undecided = Field(default="neutral", alias="import")

    def for_event(self, event: Event) -> Undecided:
        value: Undecided = getattr(self, "import_" if event == "import" else event)
        return value


class BaselineRules(Record):
    """Where the comparator comes from."""

    auto_adopt: bool = False
    pool_nights: int = Field(default=7, ge=1, le=365)
    release: DigestText | None = None


class WaiverRules(Record):
    """Whether a maintainer may accept a named regression, and for how long."""

    allowed: bool = True
    max_days: int = Field(default=30, ge=1, le=365)


class Policy(Record):
    """What a project's gate demands. Comes from the base branch, never from the plan."""

    schema_: Literal["evalhub.policy/1"] = Field(alias="schema")
    rubrics: dict[Name, Rubric] = Field(min_length=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    multiplicity: Literal["holm", "none"] = "holm"
    design: Literal["auto", "paired", "unpaired"] = "auto"
    gate_by: Literal["overall", "category"] = "overall"
    max_missing: float = Field(default=0.05, ge=0, le=1)
    max_unmeasured: float = Field(default=0.05, ge=0, le=1)
    count_against_agent: list[Literal["agent_error", "agent_timeout"]] = [
        "agent_error",
        "agent_timeout",
    ]
    scenario_sampling: Literal["fixed_suite", "random_draw"] = "fixed_suite"
    inconclusive: Undecideds = Undecideds()
    isolation: Isolation = Isolation()
    guards: Guards = Guards()
    environment: EnvironmentRules = EnvironmentRules()
    baseline: BaselineRules = BaselineRules()
    waivers: WaiverRules = WaiverRules()
