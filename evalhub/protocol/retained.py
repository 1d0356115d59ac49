"""The small documents that lie beside the segments, so that the rows can be made again from objects.

`receipt.json` is the receipt as it was given, and `plan.json` and `policy.json` are those documents
themselves; the others are defined here.
"""

from typing import Literal, NamedTuple

from pydantic import Field, JsonValue

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.faults import DocumentError, Fault, parse_document
from evalhub.protocol.scalars import (
    Count,
    DigestText,
    Name,
    Ordinal,
    ProjectName,
    Record,
    Time,
)
from evalhub.protocol.segments import Category

PlanStateWord = Literal["registered", "running", "concluded"]

AttemptKey = Field(pattern=r"^att_[A-Za-z0-9_-]{10,60}$")


class RetainedAttempt(Record):
    """`attempt.json`: whose folder this is."""

    attempt: str = AttemptKey
    plan: DigestText
    lane: Name
    number: Ordinal
    opened_at: Time


class RetainedSeal(Record):
    """`seal.json`: what had been received when the attempt was sealed, and when that was."""

    segments: Count
    digest: DigestText
    sealed_at: Time


class RetainedRefusal(Record):
    """`<seq>-<sha256>.refusal.json`: why the whole segment beside it is in quarantine."""

    seq: Ordinal
    sha256: DigestText
    size_bytes: Count
    category: Category = Field(strict=False)
    code: str
    detail: str
    refused_at: Time


class RetainedAllocation(Record):
    """What a lane was given from a pool, and what its row knew."""

    lane: Name
    pool: Name
    columns: dict[str, JsonValue]


class AttemptState(Record):
    """An attempt of a plan, and what its row knew that no other object tells."""

    identity: RetainedAttempt
    columns: dict[str, JsonValue]


class RetainedState(Record):
    """`state.json`: what the rows of a plan knew that no other object tells.

    Written by a sweep, so it may be some seconds older than the segments: `evidence` counts those
    that the plan's row had seen, and whole refused ones. Nothing else names its content, so `digest`
    does, over all the rest.
    """

    schema_: Literal["evalhub.state/1"] = Field(alias="schema", default="evalhub.state/1")
    plan: DigestText
    evidence: Count
    columns: dict[str, JsonValue]
    attempts: list[AttemptState]
    allocations: list[RetainedAllocation]
    digest: str = ""

    def with_digest(self) -> "RetainedState":
        """Return the same with its own digest."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"digest"})
        return self.model_copy(update={"digest": document_digest(content)})


class ToldConclusion(NamedTuple):
    """What somebody else concluded."""

    word: str
    title: str
    engine_version: str


class RetainedOrigin(Record):
    """`foreign.json`: where a plan came from that was not registered here, and who brought it.

    `conclusion` is what was concluded there, as its archive tells it. Like `state.json` it names its
    own content.
    """

    schema_: Literal["evalhub.foreign/1"] = Field(alias="schema", default="evalhub.foreign/1")
    plan: DigestText
    project: ProjectName
    instance: str | None = Field(max_length=500)
    exported_at: Time
    exported_by: str | None = Field(max_length=200)
    engine_version: str = Field(max_length=200)
    state: PlanStateWord | None
    registered_at: Time | None
    archive_sha256: DigestText
    imported_at: Time
    imported_by: str = Field(max_length=200)
    conclusion: dict[str, JsonValue] | None
    digest: str = ""

    @property
    def told(self) -> ToldConclusion | None:
        """What was concluded where the plan came from, in words; the archive may tell anything."""
        if self.conclusion is None:
            return None
        names = ("conclusion", "title", "engine_version")
        words = (self.conclusion.get(name) for name in names)
        return ToldConclusion(*(str(word)[:500] if word else "" for word in words))

    def with_digest(self) -> "RetainedOrigin":
        """Return the same with its own digest."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"digest"})
        return self.model_copy(update={"digest": document_digest(content)})


def parse_origin(data: bytes) -> RetainedOrigin:
    """Return a `foreign.json`.

    Raises:
        DocumentError: if it is none, or is not what it was when it was written.
    """
    origin = parse_document(RetainedOrigin, data)
    _refuse_other_digest(origin.digest, wanted=origin.with_digest().digest)
    return origin


def parse_state(data: bytes) -> RetainedState:
    """Return a `state.json`.

    Raises:
        DocumentError: if it is none, or is not what it was when it was written.
    """
    state = parse_document(RetainedState, data)
    _refuse_other_digest(state.digest, wanted=state.with_digest().digest)
    return state


def _refuse_other_digest(found: str, *, wanted: str) -> None:
    if found != wanted:
        raise DocumentError([Fault("/digest", found, wanted)])
