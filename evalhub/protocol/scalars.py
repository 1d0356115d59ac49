"""The small types that every document is made of, and the rules of WIRE's conventions."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
NAME_PATTERN = r"^[a-z0-9][a-z0-9._+:-]{0,63}$"
PROJECT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Record(BaseModel):
    """The rules for every document: nothing unknown, nothing converted, nothing infinite."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, populate_by_name=True
    )


def _plain(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("text on one line without control characters")
    return text


def _normal(text: str) -> str:
    if unicodedata.normalize("NFC", text) != text:
        raise ValueError("Unicode in its normal form C (NFC)")
    return _plain(text)


def _utc(at: datetime) -> datetime:
    if at.utcoffset() is None or at.utcoffset() != UTC.utcoffset(None):
        raise ValueError("a time in UTC that ends in Z")
    return at


def rfc3339(at: datetime) -> str:
    """Return a UTC time as WIRE writes it.

    >>> rfc3339(datetime(2026, 11, 29, 12, 0, tzinfo=UTC))
    '2026-11-29T12:00:00Z'
    """
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


DigestText = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
ProjectName = Annotated[str, StringConstraints(pattern=PROJECT_PATTERN, max_length=165)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
ScenarioId = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_normal)
]
Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(_plain)]
"""Free text on one line, short enough for a table."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
"""A word that is shown and filtered by: a category, a model, a tag."""
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Ordinal = Annotated[int, Field(ge=1, le=1_000_000)]
Time = Annotated[
    datetime, AfterValidator(_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")
]
