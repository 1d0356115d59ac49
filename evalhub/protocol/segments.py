"""The segment's header, its receipt, the seal: how evidence is handed over and acknowledged."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import Field

from evalhub.protocol.canonical import Digest, document_digest
from evalhub.protocol.scalars import (
    Commit,
    Count,
    DigestText,
    Name,
    Ordinal,
    ProjectName,
    Record,
    Time,
)

SEGMENT_CLASSES = ("record", "bulk")
HEADER_PATH = "segment.json"


class Category(StrEnum):
    """The five reasons of intake and the one of gather for which evidence does not count."""

    DUPLICATE = "duplicate"
    UNEXPECTED = "unexpected"
    STALE = "stale"
    MALFORMED = "malformed"
    INCOMPATIBLE = "incompatible"
    MISSING = "missing"


class SegmentHeader(Record):
    """`segment.json`, the first member of each segment."""

    schema_: Literal["evalhub.segment/1"] = Field(alias="schema", default="evalhub.segment/1")
    records: Literal["evalhub.records/1"] = "evalhub.records/1"
    project: ProjectName
    plan: DigestText
    lane: Name
    attempt: str = Field(pattern=r"^att_[A-Za-z0-9_-]{10,60}$")
    seq: Ordinal
    class_: Literal["record", "bulk"] = Field(alias="class")
    tested_sha: Commit | None
    created_at: Time


class Refused(Record):
    """One item that does not count, and why."""

    path: str
    category: Category = Field(strict=False)
    code: str
    detail: str


class Receipt(Record):
    """The promise that bytes are stored, hashed by the server, and their rows committed."""

    seq: Ordinal
    sha256: DigestText
    accepted: Count
    refused: list[Refused]
    received_at: Time


class SegmentDigest(NamedTuple):
    seq: int
    sha256: str


def seal_digest(segments: Iterable[SegmentDigest]) -> Digest:
    """Return the digest that a seal names: over the array of `{seq, sha256}`, in order of seq."""
    return document_digest([{"seq": s.seq, "sha256": s.sha256} for s in sorted(segments)])
