"""The bodies of requests and answers that are not documents of their own."""

from typing import Literal

from pydantic import Field

from evalhub.protocol.scalars import Count, DigestText, Line, Name, PoolMicroUsd, Record, Time
from evalhub.protocol.segments import Refused


class RegisteredLane(Record):
    name: Name
    attempts_url: str


class Registered(Record):
    """Answer of `POST /plans`."""

    digest: DigestText
    url: str
    lanes: list[RegisteredLane]
    verified: bool


class AttemptLimits(Record):
    segment_bytes: Count
    flush_seconds: Count


class OpenedAttempt(Record):
    """Answer of `POST /plans/<digest>/lanes/<lane>/attempts`."""

    attempt: str
    lane_token: str
    expires_in: Count
    salt: str
    plan_slice: dict[str, object]
    limits: AttemptLimits
    budget_microusd: PoolMicroUsd | None
    heartbeat_seconds: Count


class Heartbeat(Record):
    """What a lane says while it works."""

    phase: Line
    done: Count
    total: Count


class HeartbeatAnswer(Record):
    do: Literal["continue", "stop"]
    reason: str | None
    next_seconds: Count


class SealRequest(Record):
    """`segments` is a count; `digest` is `seal_digest` of what the lane has sent."""

    segments: Count
    digest: DigestText
    final: bool


class SealAnswer(Record):
    missing: list[str]
    refused: list[Refused]
    sealed: bool


class BudgetRequest(Record):
    microusd: int = Field(ge=1, le=10**15)


class BudgetAnswer(Record):
    budget_microusd: PoolMicroUsd | None


class CancelRequest(Record):
    """Why nobody waits for a plan any more."""

    reason: str = Field(min_length=3, max_length=300)


class AdoptionRequest(Record):
    """A maintainer names a plan as the baseline and thereby vouches for it."""

    plan: DigestText
    kind: Literal["rolling", "release"]
    reason: str = Field(min_length=3, max_length=2000)


class PoolRequest(Record):
    credential_fingerprint: DigestText | None = None
    limit_microusd: PoolMicroUsd


class ScheduleRequest(Record):
    """A nightly that a project waits for: when it is due, and how late it may be registered."""

    cron: Line
    timezone: Line = "UTC"
    grace_minutes: int = Field(default=120, ge=0, le=10_080)
    paused: bool = False


class FieldFault(Record):
    """One thing that is wrong; `code` names the broken rule where there is a list of rules."""

    pointer: str
    got: str
    expected: str
    code: str | None = None


class Problem(Record):
    """RFC 9457: how every error is answered.

    `request_id` is there where the server failed: its log has the details below this id.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    fix: str | None = None
    errors: list[FieldFault] = []
    request_id: str | None = None


class TokenAnswer(Record):
    lane_token: str
    expires_in: Count
    expires_at: Time
