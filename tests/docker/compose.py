"""docker/compose.yaml as data."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import yaml

from tests.architecture.sources import ROOT

FOLDER = ROOT / "docker"
PROGRAMS = ("web", "worker", "beat")
Json = dict[str, Any]


def compose(**variables: str) -> Json:
    """Return the document with its variables filled in, as `docker compose config` does.

    Raises:
        KeyError: if a variable that has no default is not given.
    """
    text = (FOLDER / "compose.yaml").read_text()
    document: Json = _filled(yaml.safe_load(text), variables)
    return document


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _text(value, variables)
        case list():
            return [_filled(each, variables) for each in value]
        case dict():
            return {name: _filled(each, variables) for name, each in value.items()}
    return value


def _text(text: str, variables: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        name, operator, other = match["name"], match["operator"], match["other"]
        given = variables.get(name)
        if operator == ":-":
            return given or other
        if operator == "-":
            return other if given is None else given
        return variables[name]

    return re.sub(
        r"(?P<dollar>\$\$)|\$\{(?P<name>\w+)(?:(?P<operator>:-|-|:\?)(?P<other>[^}]*))?\}",
        fill,
        text,
    )


def duration(text: str) -> timedelta:
    """Return what `1m30s` and its like say."""
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", text)
    assert parts is not None, text
    minutes, seconds = (int(part or 0) for part in parts.groups())
    return timedelta(minutes=minutes, seconds=seconds)
