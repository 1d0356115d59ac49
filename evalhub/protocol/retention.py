"""What maintainers say about stored evidence: how long it is kept, what is needed, what must go."""

from typing import Literal, Self

from pydantic import Field, model_validator

from evalhub.protocol.scalars import Ordinal, Record

MOST_DAYS = 36_500


class RetentionRequest(Record):
    """For how many days a project keeps its evidence; null keeps it for good.

    With `dry_run` nothing changes, and the answer says what would go.
    """

    record_days: int | None = Field(ge=1, le=MOST_DAYS)
    bulk_days: int | None = Field(ge=1, le=MOST_DAYS)
    dry_run: bool = False


class PinRequest(Record):
    reason: str = Field(min_length=3, max_length=2000)


class PurgeRequest(Record):
    """What of a plan must go: all of it, an attempt, a segment of one, or a run by its number."""

    scope: Literal["plan", "attempt", "segment", "run"]
    attempt: str | None = Field(default=None, max_length=64)
    seq: Ordinal | None = None
    run: int | None = Field(default=None, ge=1, le=2**53 - 1)
    reason: str = Field(min_length=3, max_length=2000)
    even_pinned: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _names_what_its_scope_needs(self) -> Self:
        wanted = {
            "plan": set(),
            "attempt": {"attempt"},
            "segment": {"attempt", "seq"},
            "run": {"run"},
        }[self.scope]
        given = {name for name in ("attempt", "seq", "run") if getattr(self, name) is not None}
        if given != wanted:
            named = " and ".join(sorted(wanted)) or "none of attempt, seq and run"
            raise ValueError(f"for the scope {self.scope}: {named}")
        return self
