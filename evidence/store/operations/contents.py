"""What one item holds, by its kind: parsed where the fields are ours, opaque where they are not."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from evalhub.protocol.faults import DocumentError, parse_document, refuse_repeated_fields
from evalhub.protocol.paths import ItemKind, ItemPath
from evalhub.protocol.policy import Stage
from evalhub.protocol.records import (
    CostSource,
    Failure,
    JudgeLine,
    LaneEnvironment,
    Preflight,
    ProbeLine,
    Redactions,
    Result,
    Turn,
)
from evalhub.protocol.scalars import MicroUsd, Name
from evalhub.protocol.segments import Category

_DOCUMENTS: dict[ItemKind, type[BaseModel]] = {
    ItemKind.FAILURE: Failure,
    ItemKind.PREFLIGHT: Preflight,
    ItemKind.ENVIRONMENT: LaneEnvironment,
    ItemKind.REDACTIONS: Redactions,
}
# A transcript of ten thousand megabytes; coverage lists each part that is absent.
_MOST_TRANSCRIPT_PARTS = 10_000
_BODY_PREFIX = "body-"
_OBJECT = TypeAdapter(dict[str, JsonValue])


class Unfit(NamedTuple):
    """Why an item is refused."""

    category: Category
    code: str
    detail: str


class UnfitError(Exception):
    """An item does not count; never leaves this room."""

    def __init__(self, category: Category, code: str, detail: str) -> None:
        super().__init__(detail)
        self.unfit = Unfit(category, code, detail)


class CallCost(BaseModel):
    """As much of a judge line as its money needs; read from lines that are refused, too."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    call_id: UUID = Field(strict=False)
    rubric: Name
    stage: Stage
    cost_microusd: MicroUsd | None = None
    cost_source: CostSource = "unknown"


@dataclass(frozen=True, slots=True)
class Content:
    """What the rows need of an item's bytes."""

    lines: int | None = None
    result: Result | None = None
    judge_lines: list[JudgeLine] = field(default_factory=list)
    probe_lines: list[ProbeLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Costs:
    """What the judge lines of an item cost, readable or not."""

    calls: list[CallCost]
    unreadable_lines: int


def checked_content(item: ItemPath, data: bytes) -> Content:
    """Return what an item of a kind that is parsed holds.

    Raises:
        UnfitError: malformed, with the line, the field, what it was and what was expected.
    """
    match item.kind:
        case ItemKind.RESULT:
            return Content(result=_checked_result(data))
        case ItemKind.JUDGE:
            return _checked_judge_lines(data)
        case ItemKind.TRANSCRIPT:
            return Content(lines=len(_documents(Turn, data)))
        case ItemKind.PROBES:
            return _checked_probe_lines(data)
        case ItemKind.FAULTS:
            return Content(lines=_count_of_objects(data))
    _document(_DOCUMENTS[item.kind], data)
    return Content()


def check_attachment(item: ItemPath, sha256: str) -> None:
    """Refuse a long text whose name is not its digest: a transcript refers to it by that."""
    name = item.name or ""
    if name.startswith(_BODY_PREFIX) and name.removeprefix(_BODY_PREFIX) not in (
        sha256,
        sha256.removeprefix("sha256:"),
    ):
        raise UnfitError(
            Category.MALFORMED, "wrong_digest", f"The content of {name!r} has the digest {sha256}."
        )


def judge_costs(data: bytes) -> Costs:
    """Return what can be read of the money in a judge item, whatever else is wrong with it."""
    calls, unreadable = [], 0
    for line in _split(data):
        try:
            calls.append(CallCost.model_validate_json(line))
        except ValidationError:
            unreadable += 1
    return Costs(calls, unreadable)


def line_cost(line: JudgeLine) -> CallCost:
    """Return the money of an accepted judge line."""
    return CallCost.model_construct(
        call_id=line.call_id,
        rubric=line.rubric,
        stage=line.stage,
        cost_microusd=line.cost_microusd,
        cost_source=line.cost_source,
    )


def _checked_result(data: bytes) -> Result:
    result = _document(Result, data)
    if result.transcript_parts > _MOST_TRANSCRIPT_PARTS:
        raise UnfitError(
            Category.MALFORMED,
            "invalid_record",
            f"/transcript_parts was {result.transcript_parts};"
            f" expected at most {_MOST_TRANSCRIPT_PARTS}.",
        )
    return result


def _checked_judge_lines(data: bytes) -> Content:
    lines = _documents(JudgeLine, data)
    if len({line.call_id for line in lines}) != len(lines):
        raise UnfitError(
            Category.MALFORMED,
            "repeated_call",
            "Two lines have one call_id; each call has its own.",
        )
    return Content(lines=len(lines), judge_lines=lines)


def _checked_probe_lines(data: bytes) -> Content:
    lines = _documents(ProbeLine, data)
    if len({line.probe for line in lines}) != len(lines):
        raise UnfitError(
            Category.MALFORMED, "repeated_probe", "Two lines tell of one probe; each is run once."
        )
    return Content(lines=len(lines), probe_lines=lines)


Document = TypeVar("Document", bound=BaseModel)


def _document(model: type[Document], data: bytes) -> Document:
    try:
        document = parse_document(model, data)
        refuse_repeated_fields(data)
    except DocumentError as error:
        raise UnfitError(Category.MALFORMED, "invalid_record", str(error)) from None
    return document


def _documents(model: type[Document], data: bytes) -> list[Document]:
    lines = _split(data)
    if not lines:
        raise UnfitError(Category.MALFORMED, "empty", "The part has no line.")
    documents: list[Document] = []
    # What a transcript's lines say counts for nothing, and they are many.
    names = None if model is Turn else _quoted_names(model)
    try:
        # One loop in one try: intake of thousands of lines is measured.
        for line in lines:
            documents.append(parse_document(model, line))
            if names is not None and _may_repeat(line, names):
                refuse_repeated_fields(line)
    except DocumentError as error:
        raise _bad_line(data, len(documents) + 1, len(lines), str(error)) from None
    return documents


def _quoted_names(model: type[BaseModel]) -> list[bytes]:
    return [f'"{name}"'.encode() for name in model.model_fields]


def _may_repeat(line: bytes, names: list[bytes]) -> bool:
    """Say whether a line could give a field twice; a name can be written with escapes, too."""
    return rb"\u00" in line or any(line.count(name) > 1 for name in names)


def _count_of_objects(data: bytes) -> int:
    lines = _split(data)
    for number, line in enumerate(lines, start=1):
        try:
            _OBJECT.validate_json(line)
        except ValidationError:
            raise _bad_line(data, number, len(lines), "expected a JSON object.") from None
    return len(lines)


def _bad_line(data: bytes, number: int, count: int, why: str) -> UnfitError:
    if number == count and not data.endswith(b"\n"):
        return UnfitError(
            Category.MALFORMED, "truncated", f"Line {number}, the last, is cut short: {why}"
        )
    return UnfitError(Category.MALFORMED, "invalid_line", f"Line {number}: {why}")


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines
