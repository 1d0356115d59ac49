"""`<seq>-<sha256>.purged.json`: what lies beside a segment whose bytes were removed, and all that is left of it.

It holds what rows need so that they can be made again: digests, outcomes, scores, costs. It holds no
text that an agent, a tool or a judge wrote, but paths and the short names of an outcome.
"""

from enum import StrEnum
from typing import Literal
from uuid import UUID

from pydantic import Field

from evalhub.protocol.policy import Stage
from evalhub.protocol.records import CostSource, Outcome, ProbeLine, UnscoredReason
from evalhub.protocol.scalars import (
    Count,
    DigestText,
    Label,
    Measured,
    MicroUsd,
    Name,
    Ordinal,
    Record,
    Time,
)

TOMBSTONE = "purged.json"


class Cause(StrEnum):
    """Why bytes were removed."""

    RETENTION = "RETENTION"
    PURGE = "PURGE"


class RemovalScope(StrEnum):
    """What of a plan is removed."""

    PLAN = "PLAN"
    ATTEMPT = "ATTEMPT"
    SEGMENT = "SEGMENT"
    RUN = "RUN"
    CLASS = "CLASS"


class RemovalOrder(Record):
    """Who had what removed, and why; the same in each tombstone of one order."""

    key: str = Field(pattern=r"^rem_[A-Za-z0-9_-]{10,60}$")
    cause: Cause = Field(strict=False)
    scope: RemovalScope = Field(strict=False)
    subject: str = Field(max_length=500)
    ordered_by: str = Field(max_length=200)
    reason: str = Field(max_length=2000)
    ordered_at: Time
    segments: Count
    size_bytes: Count


class KeptResult(Record):
    """What of a `result.json` rows hold."""

    outcome: Outcome
    code: Label | None
    started_at: Time | None
    duration_ms: Count | None
    transcript_parts: Count
    error_origin: Label | None
    error_type: Label | None
    scores: dict[Name, Measured | None]


class KeptCall(Record):
    """What of a judge line rows hold."""

    call_id: UUID = Field(strict=False)
    rubric: Name
    stage: Stage
    fingerprint: DigestText
    repeat: Ordinal
    value: Measured | None
    unscored_reason: UnscoredReason | None


class KeptItem(Record):
    """A sound item: where it lay, its digest, and what it told."""

    path: str
    sha256: DigestText
    size_bytes: Count
    header_offset: Count
    stored_bytes: Count
    lines: Count | None
    secrets: str | None = None
    """How many were found in it, by kind."""
    result: KeptResult | None = None
    judge: list[KeptCall] = []
    probes: list[ProbeLine] = []


class KeptRefusal(Record):
    """An item that was unsound; why, the receipt says."""

    path: str
    sha256: DigestText
    size_bytes: Count


class KeptCost(Record):
    """What one judge call cost, told by an item that counts or not."""

    call_id: UUID = Field(strict=False)
    rubric: Name
    stage: Stage
    cost_microusd: MicroUsd | None
    cost_source: CostSource


class Tombstone(Record):
    """The document. `is_whole` is false where the bytes could not be read any more when they were removed.

    Then it tells what the rows knew. `created_at` and `class` are null of a segment that was refused
    as a whole.
    """

    schema_: Literal["evalhub.tombstone/1"] = Field(alias="schema", default="evalhub.tombstone/1")
    seq: Ordinal
    sha256: DigestText
    size_bytes: Count
    class_: Literal["record", "bulk"] | None = Field(alias="class")
    created_at: Time | None
    removal: RemovalOrder
    is_whole: bool
    items: list[KeptItem]
    refused: list[KeptRefusal]
    costs: list[KeptCost]
    unknown_costs: dict[str, Count]
