"""What is wrong with a document: where, what it was, what was expected."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

_LONGEST_SHOWN = 120
_MOST_IN_A_SENTENCE = 5
_NO_SUCH_FIELD = "no field of this name"
_SUBJECT = re.compile(
    r"^(Input|String|List|Tuple|Dictionary|Value) should (be |have )?| after validation, not \d+$"
)


class Fault(NamedTuple):
    """One thing that is wrong at one place of a document."""

    pointer: str
    """JSON pointer (RFC 6901) to the place; empty for the whole document."""
    got: str
    """What stood there, cut to a readable length."""
    expected: str
    """What would have been right."""

    def __str__(self) -> str:
        return f"{self.pointer or 'the document'} was {self.got}; expected {self.expected}"


class DocumentError(ValueError):
    """A document cannot be accepted; carries every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        shown = self.misspelt_first()[:_MOST_IN_A_SENTENCE]
        rest = len(self.faults) - len(shown)
        more = f" ({rest} more)" if rest else ""
        super().__init__(f"{'; '.join(map(str, shown))}{more}.")

    def misspelt_first(self) -> list[Fault]:
        """Return the faults with unknown fields first: one of them often explains an absent one."""
        return sorted(self.faults, key=lambda fault: fault.expected != _NO_SUCH_FIELD)


Document = TypeVar("Document", bound=BaseModel)


def parse_document(model: type[Document], data: bytes | str) -> Document:
    """Return `data` (JSON in UTF-8, no byte-order mark) as a `model`.

    Raises:
        DocumentError: with a pointer, what was found and what was expected, for each fault.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise DocumentError([_fault(detail) for detail in error.errors()]) from None


def _fault(detail: object) -> Fault:
    assert isinstance(detail, dict)  # noqa: S101 - pydantic's ErrorDetails is a dict
    pointer = "".join(f"/{_escaped(part)}" for part in detail["loc"])
    return Fault(pointer, _shown(detail), _expected(detail))


def _escaped(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _shown(detail: dict[str, object]) -> str:
    match detail["type"]:
        case "missing":
            return "absent"
        case "json_invalid":
            return str(detail["msg"]).replace("Invalid JSON: ", "not JSON: ")
    try:
        text = json.dumps(detail["input"], ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = ascii(detail["input"])
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _expected(detail: dict[str, object]) -> str:
    message = str(detail["msg"])
    match detail["type"]:
        case "missing":
            return "this field"
        case "extra_forbidden":
            return _NO_SUCH_FIELD
        case "json_invalid":
            return "one whole JSON document"
        case "value_error":
            return message.removeprefix("Value error, ")
    # pydantic names the type it checks ("String should have …"); the pointer says that better.
    return _SUBJECT.sub("", message)
