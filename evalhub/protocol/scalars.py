"""The small types that every document is made of, and the rules of WIRE's conventions."""

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

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


def _matching(pattern: str, *, expected: str) -> Callable[[str], str]:
    """Return a check that says in words, not as a pattern, what was expected."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(expected)
        return text

    return check


_DIGEST = r"sha256:[0-9a-f]{64}"
_NAME = r"[a-z0-9][a-z0-9._+:-]{0,63}"
_PROJECT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_COMMIT = r"[0-9a-f]{40}"

DigestText = Annotated[
    str,
    AfterValidator(_matching(_DIGEST, expected="sha256: and 64 lower-case hexadecimal digits")),
    WithJsonSchema({"type": "string", "pattern": f"^{_DIGEST}$"}),
]
Name = Annotated[
    str,
    AfterValidator(
        _matching(
            _NAME,
            expected="1 to 64 lower-case letters, digits and ._+:-, beginning with a letter or digit",
        )
    ),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"}),
]
ProjectName = Annotated[
    str,
    AfterValidator(_matching(_PROJECT, expected="OWNER/NAME")),
    WithJsonSchema({"type": "string", "pattern": f"^{_PROJECT}$"}),
]
Commit = Annotated[
    str,
    AfterValidator(_matching(_COMMIT, expected="40 lower-case hexadecimal digits")),
    WithJsonSchema({"type": "string", "pattern": f"^{_COMMIT}$"}),
]
ScenarioId = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_normal)
]
Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(_plain)]
"""Free text on one line, short enough for a table."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
"""A word that is shown and filtered by: a category, a model, a tag."""
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Ordinal = Annotated[int, Field(ge=1, le=1_000_000)]
MicroUsd = Annotated[int, Field(ge=0, le=10**12)]
"""What one thing cost: at most a million dollars, so that nine million such costs fit into 64 bits."""
PoolMicroUsd = Annotated[int, Field(ge=0, le=10**15)]
"""Money to be given away: at most a thousand million dollars."""
MOST_MEASURED = 1e15


def _measured(value: float) -> float:
    if abs(value) > MOST_MEASURED:
        raise ValueError("a measured value from -1e15 to 1e15")
    return value


Measured = Annotated[
    float,
    AfterValidator(_measured),
    WithJsonSchema({"type": "number", "minimum": -MOST_MEASURED, "maximum": MOST_MEASURED}),
]
"""A value of a run, so bounded that sums and squares of many stay numbers."""
Time = Annotated[
    datetime, AfterValidator(_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")
]
