"""What is wrong with a document: where, what it was, what was expected."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

_LONGEST_SHOWN = 120
_MOST_IN_A_SENTENCE = 5
_NOT_OURS = "extra"
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


class TextOfOthers(BaseModel):
    """A document with text that agents, tools and judges wrote.

    In it the escape of a lone surrogate, which Python and JavaScript write and UTF-8 cannot hold, is
    read as U+FFFD.
    """


Document = TypeVar("Document", bound=BaseModel)


def parse_document(model: type[Document], data: bytes | str) -> Document:
    """Return `data` (JSON in UTF-8, no byte-order mark) as a `model`.

    Raises:
        DocumentError: with a pointer, what was found and what was expected, for each fault.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        whole = _without_lone_surrogates(data) if issubclass(model, TextOfOthers) else data
        if whole != data:
            return parse_document(model, whole)
        raise DocumentError([_fault(detail) for detail in error.errors()]) from None


def refuse_repeated_fields(data: bytes) -> None:
    """Refuse JSON that gives one field twice: of two readers each may believe another.

    What lies below a field `extra` is not ours, and not looked at.

    Raises:
        DocumentError: with a pointer to each such field.
    """
    pointers = list(_repeated(json.loads(data, object_pairs_hook=_Object, parse_int=str), ""))
    if pointers:
        raise DocumentError([Fault(p, "given twice", "each field once") for p in pointers])


class _Object(dict[str, object]):
    """A JSON object that remembers the names that it was given more than once."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs] if len(pairs) != len(self) else []
        self.repeated = sorted({name for name in names if names.count(name) > 1})


def _repeated(value: object, pointer: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _repeated(entry, f"{pointer}/{index}")
    elif isinstance(value, _Object):
        yield from (f"{pointer}/{_escaped(name)}" for name in value.repeated)
        for name, entry in value.items():
            if name != _NOT_OURS:
                yield from _repeated(entry, f"{pointer}/{_escaped(name)}")


# Each escape whole, so that a backslash that is itself escaped begins none.
_ESCAPE = re.compile(
    rb"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _without_lone_surrogates(data: bytes | str) -> bytes | str:
    plain = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if b"\\ud" not in plain and b"\\uD" not in plain:
        return data
    changed = _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], plain)
    return data if changed == plain else changed


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
        case "uuid_type" | "uuid_parsing":
            return "a UUID"
        case "value_error":
            return message.removeprefix("Value error, ")
    # pydantic names the type it checks ("String should have …"); the pointer says that better.
    return _SUBJECT.sub("", message)
