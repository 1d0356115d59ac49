"""The records that a lane writes: results, judge calls, transcripts, lane records.

Strict for our fields, tolerant for theirs: `arguments`, `text` and `rationale` are opaque strings, and
whatever lies below `extra` is kept and never looked at.
"""

from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from evalhub.protocol.faults import TextOfOthers
from evalhub.protocol.plan import GuardResult
from evalhub.protocol.policy import Stage, Tier
from evalhub.protocol.scalars import (
    Count,
    DigestText,
    Label,
    Line,
    Measured,
    MicroUsd,
    Name,
    Ordinal,
    Record,
    Time,
)

Outcome = Literal[
    "passed",
    "failed",
    "agent_error",
    "agent_timeout",
    "timeout",
    "budget_exceeded",
    "infra_error",
    "setup_error",
    "simulator_error",
    "judge_error",
    "skipped",
]
MEASURED: frozenset[str] = frozenset({"passed", "failed"})
"""Outcomes whose scores count as given."""
AGENT_FAULTS: frozenset[str] = frozenset({"agent_error", "agent_timeout"})
"""Outcomes that are the agent's own doing: they count against it unless the policy says otherwise."""

CostSource = Literal["provider", "price_table", "estimate", "unknown"]
ProbeSource = Literal["recorded", "spec", "reported", "invariant"]
"""Where the expected answer comes from: a recording, a specification, a report, or no comparison."""
ProbeOutcome = Literal["match", "status_only", "mismatch", "unverified"]
"""`status_only`: the status is right, the rest is not. `unverified`: nothing fresh to compare with."""
UnscoredReason = Literal["judge_error", "judge_refused", "unparseable", "budget"]


class Usage(Record):
    """What one model used on one role during a run."""

    role: Label
    model: Label
    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_microusd: MicroUsd | None = None
    cost_source: CostSource = "unknown"


class RunFault(Record):
    """What went wrong in a run, and whose doing it was."""

    origin: Label
    type: Label
    message: str


class WorldDigests(Record):
    seed_digest: DigestText | None = None
    final_digest: DigestText | None = None


class Result(Record, TextOfOthers):
    """`result.json`: how one run ended and what was measured without a judge."""

    outcome: Outcome
    code: Label | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    duration_ms: Count | None = None
    scores: dict[Name, Measured | None] = {}
    usage: list[Usage] = []
    error: RunFault | None = None
    world: WorldDigests | None = None
    faults_delivered: Count = 0
    transcript_parts: Count = 0
    extra: dict[str, object] = {}


class JudgeUsage(Record):
    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    output_tokens: Count | None = None


class JudgeLine(Record, TextOfOthers):
    """One line of `judge.<part>.ndjson`: one scoring of one run on one rubric by one stage."""

    call_id: UUID = Field(strict=False)
    rubric: Name
    stage: Stage
    fingerprint: DigestText
    repeat: Ordinal = 1
    value: Measured | None
    unscored_reason: UnscoredReason | None = None
    rationale: str | None = None
    cites: list[Ordinal] = []
    model: Label | None = None
    at: Time | None = None
    duration_ms: Count | None = None
    usage: JudgeUsage | None = None
    cost_microusd: MicroUsd | None
    cost_source: CostSource = "unknown"
    extra: dict[str, object] = {}

    @model_validator(mode="after")
    def _is_scored_or_says_why_not(self) -> Self:
        if (self.value is None) != (self.unscored_reason is not None):
            raise ValueError("a value, or null with an unscored_reason")
        return self


class ToolCall(Record):
    name: str = Field(max_length=500)
    call_id: str | None = Field(default=None, max_length=500)
    arguments: str | None = None


class TurnUsage(Record):
    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_microusd: MicroUsd | None = None


class Turn(Record, TextOfOthers):
    """One line of `transcript.<part>.ndjson`."""

    turn: Ordinal
    at: Time | None = None
    role: Literal["system", "user", "assistant", "tool", "environment"]
    kind: Literal[
        "message", "reasoning", "tool_call", "tool_result", "error", "fault", "state", "note"
    ]
    text: str | None = None
    body: DigestText | None = None
    tool: ToolCall | None = None
    agent: str | None = Field(default=None, max_length=500)
    parent_turn: Ordinal | None = None
    duration_ms: Count | None = None
    usage: TurnUsage | None = None
    extra: dict[str, object] = {}


class RecommendedFix(Record):
    target: Label
    file: Line | None = None
    description: str


class Failure(Record, TextOfOthers):
    """`failure.json`: why a run failed, in words that somebody can act on."""

    category: Label
    root_cause: str
    turns: list[Ordinal] = []
    recommended_fix: RecommendedFix | None = None
    by: Label


class PreflightGuard(Record):
    name: Label
    expected: object = None
    observed: object = None
    result: GuardResult
    at: Time | None = None
    duration_ms: Count | None = None
    fix: Line


class Preflight(Record):
    """`lane/preflight.json`: what the lane checked before it used anything scarce."""

    guards: list[PreflightGuard]


class Machine(Record):
    """Keyed fingerprints of the machine: HMAC-SHA256(project salt, value)."""

    boot_id: DigestText | None = None
    hostname: DigestText | None = None
    container: DigestText | None = None


class SimulatorInstance(Record):
    name: Name
    instance_id: DigestText | None = None
    world_ids: list[DigestText] = []
    started_at: Time | None = None
    seed_digest: DigestText | None = None
    final_digest: DigestText | None = None
    requests: Count | None = None
    foreign_requests: Count | None = None


class LaneEnvironment(Record):
    """`lane/environment.json`: where the lane ran."""

    tier: Tier
    image_digest: DigestText | None = None
    lockfile_digest: DigestText | None = None
    machine: Machine | None = None
    simulators: list[SimulatorInstance] = []
    mcp: list[dict[str, object]] = []
    credentials: list[dict[str, object]] = []
    pool: DigestText | None = None
    canary: dict[str, object] | None = None
    memory: bool | None = None
    extra: dict[str, object] = {}


class ProbeLine(Record):
    """One line of `lane/probes.<part>.ndjson`: a request to the simulator, held against the real API.

    `paths` are the places where the answers differ, with list positions as `*`: `/data/*/status`.
    """

    probe: Label
    digest: DigestText
    """Over the probe's definition: results compare only within it."""
    category: Label
    source: ProbeSource
    result: ProbeOutcome
    paths: list[Line] = Field(default=[], max_length=200)
    at: Time | None = None
    duration_ms: Count | None = None
    extra: dict[str, object] = {}

    @model_validator(mode="after")
    def _match_has_no_mismatching_path(self) -> Self:
        if self.result == "match" and self.paths:
            raise ValueError("no paths where the answers match")
        return self


class Redactions(Record):
    """`lane/redactions.json`: how many secrets were replaced before anything was written."""

    counts: dict[Label, Count] = {}
    """By kind, as in the markers `[redacted:kind:n]`: how many markers were put in."""
    not_looked_at: Count = 0
    """Attachments that are no text and were sent as they are."""
