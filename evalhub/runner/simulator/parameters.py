"""Form and query parameters: bracket nesting, refusal of unknown names, typed values.

The order of the checks is part of what an agent sees: unknown names first, then absent ones, then
wrong types. Whether an id exists and whether a state allows the change comes after all of these.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from evalhub.runner.simulator.errors import (
    ApiError,
    JsonObject,
    missing_parameter,
    unknown_parameters,
)

MAX_AMOUNT = 99_999_999  # The API's own limit: eight digits in the smallest unit.
MAX_PAGE = 100
_KEY = re.compile(r"([^\[\]]+)(?:\[([^\[\]]+)\])?")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


@dataclass(frozen=True)
class Value:
    """One plain parameter; `read(name, text)` returns its value or raises `ApiError`."""

    read: Callable[[str, str], object]


@dataclass(frozen=True)
class Group:
    """A parameter with named parts, as in `address[city]`; `parts=None` takes any name."""

    parts: Mapping[str, Value] | None
    # How the bare name reads, without brackets: an empty `metadata=` clears it.
    bare: Value | None = None


Accepted = Mapping[str, Value | Group]


def nested_parameters(encoded: str) -> dict[str, str | dict[str, str]]:
    """Return the parameters of a query string or form body, one level of brackets resolved.

    Raises:
        ApiError: if a name is not of the form `a` or `a[b]`, or is given twice.
    """
    found: dict[str, str | dict[str, str]] = {}
    for name, text in parse_qsl(encoded, keep_blank_values=True):
        match = _KEY.fullmatch(name)
        if match is None:
            raise unknown_parameters([name])
        outer, inner = match.groups()
        if inner is None:
            _put(found, outer, text, name=name)
            continue
        group = found.setdefault(outer, {})
        if isinstance(group, str):
            raise _given_twice(name)
        _put(group, inner, text, name=name)
    return found


def read_parameters(
    given: Mapping[str, str | dict[str, str]], *, accepted: Accepted, required: Iterable[str] = ()
) -> JsonObject:
    """Return the typed parameters.

    Raises:
        ApiError: for unknown names (all of them named), an absent one, or a wrong type.
    """
    unknown = [name for key, value in given.items() for name in _unknown(key, value, accepted)]
    if unknown:
        raise unknown_parameters(unknown)
    for name in required:
        if name not in given:
            raise missing_parameter(name)
    return {name: _read(name, value, accepted[name]) for name, value in given.items()}


def _put(
    target: dict[str, str | dict[str, str]] | dict[str, str], key: str, text: str, *, name: str
) -> None:
    if key in target:
        raise _given_twice(name)
    target[key] = text


def _given_twice(name: str) -> ApiError:
    # The real API takes one of the two; guessing which would hide an agent's mistake.
    return ApiError(f"Parameter given more than once: {name}", param=name)


def _unknown(key: str, value: str | dict[str, str], accepted: Accepted) -> list[str]:
    field = accepted.get(key)
    if isinstance(value, str):
        known = isinstance(field, Value) or (isinstance(field, Group) and field.bare is not None)
        return [] if known else [key]
    if not isinstance(field, Group):
        return [f"{key}[{inner}]" for inner in value]
    if field.parts is None:
        return []
    return [f"{key}[{inner}]" for inner in value if inner not in field.parts]


def _read(name: str, value: str | dict[str, str], field: Value | Group) -> object:
    if isinstance(value, str):
        reader = field if isinstance(field, Value) else field.bare
        if reader is None:
            raise unknown_parameters([name])
        return reader.read(name, value)
    if isinstance(field, Value):
        raise unknown_parameters([f"{name}[{inner}]" for inner in value])
    parts = field.parts
    if parts is None:
        return dict(value)
    return {inner: parts[inner].read(f"{name}[{inner}]", text) for inner, text in value.items()}


def _text(name: str, text: str) -> str | None:
    if len(text) > 5000:
        raise ApiError(f"Invalid string: {name} is longer than 5000 characters.", param=name)
    return text or None


def _email(name: str, text: str) -> str | None:
    if text and _EMAIL.fullmatch(text) is None:
        raise ApiError(f"Invalid email address: {text}", code="email_invalid", param=name)
    return text or None


def _integer(name: str, text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,15}", text) is None:
        raise ApiError(f"Invalid integer: {text}", code="parameter_invalid_integer", param=name)
    return int(text)


def _amount(name: str, text: str) -> int:
    amount = _integer(name, text)
    if amount < 1:
        raise ApiError(
            "This value must be greater than or equal to 1.",
            code="parameter_invalid_integer",
            param=name,
        )
    if amount > MAX_AMOUNT:
        raise ApiError(
            f"Amount must be no more than {MAX_AMOUNT}.", code="amount_too_large", param=name
        )
    return amount


def _page_size(name: str, text: str) -> int:
    size = _integer(name, text)
    if not 1 <= size <= MAX_PAGE:
        bound = "less than or equal to 100" if size > MAX_PAGE else "greater than or equal to 1"
        raise ApiError(
            f"This value must be {bound} (it currently is '{size}').",
            code="parameter_invalid_integer",
            param=name,
        )
    return size


def _boolean(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ApiError(f"Invalid boolean: {text}", param=name)
    return text == "true"


def one_of(*words: str) -> Value:
    """Return a parameter that takes one of `words`."""

    def read(name: str, text: str) -> str:
        if text not in words:
            raise ApiError(f"Invalid {name}: must be one of {', '.join(words)}", param=name)
        return text

    return Value(read)


TEXT = Value(_text)
EMAIL = Value(_email)
INTEGER = Value(_integer)
AMOUNT = Value(_amount)
BOOLEAN = Value(_boolean)
METADATA = Group(parts=None, bare=one_of(""))
CREATED = Group(parts=dict.fromkeys(("gt", "gte", "lt", "lte"), INTEGER), bare=INTEGER)
PAGE: Accepted = {
    "limit": Value(_page_size),
    "starting_after": TEXT,
    "ending_before": TEXT,
}


def merged_metadata(old: Mapping[str, str], given: object) -> dict[str, str]:
    """Return `old` with `given` applied; an empty value removes its key, a bare empty all keys.

    Raises:
        ApiError: if the result breaks the limits of 50 keys, 40 and 500 characters.
    """
    if not isinstance(given, dict):
        return {}
    merged = {key: text for key, text in {**old, **given}.items() if text != ""}
    for key, text in merged.items():
        if len(key) > 40 or len(text) > 500:
            raise ApiError(
                f"Metadata keys have at most 40 characters and values 500: {key[:40]}",
                param=f"metadata[{key}]",
            )
    if len(merged) > 50:
        raise ApiError("Metadata has at most 50 keys.", param="metadata")
    return merged
