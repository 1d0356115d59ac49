"""Where each piece of evidence lies inside a segment, and what a path says about it."""

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from evalhub.protocol.plan import RunKey

_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
# `quote` never touches these three, WIRE does.
_ALWAYS_KEPT_BY_QUOTE = {".": "%2E", "~": "%7E"}
_COMPONENT = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+")
LONGEST_PATH = 1000


class PathError(ValueError):
    """A path is not one that WIRE defines."""


class ItemKind(StrEnum):
    """What a piece of evidence is."""

    RESULT = "result"
    JUDGE = "judge"
    FAILURE = "failure"
    TRANSCRIPT = "transcript"
    FILE = "file"
    PREFLIGHT = "preflight"
    ENVIRONMENT = "environment"
    REDACTIONS = "redactions"
    FAULTS = "faults"
    PROBES = "probes"
    LOG = "log"


RECORD_KINDS = frozenset(ItemKind) - {ItemKind.TRANSCRIPT, ItemKind.FILE, ItemKind.LOG}
"""What a segment of class `record` carries; the rest is `bulk`."""
LANE_KINDS = frozenset(
    {
        ItemKind.PREFLIGHT,
        ItemKind.ENVIRONMENT,
        ItemKind.REDACTIONS,
        ItemKind.FAULTS,
        ItemKind.PROBES,
        ItemKind.LOG,
    }
)
"""Evidence of the lane itself; the rest is of one run."""


class ItemPath(NamedTuple):
    """What a path says: `run` for evidence of a run, `part` and `name` where the kind has them."""

    kind: ItemKind
    run: RunKey | None = None
    part: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        return format_path(self)


def encoded_component(text: str) -> str:
    """Return one path component: every byte outside [A-Za-z0-9_-] percent-encoded, upper-case.

    >>> encoded_component("../candidate+faults")
    '%2E%2E%2Fcandidate%2Bfaults'
    """
    kept = quote(text, safe=_SAFE)
    for character, code in _ALWAYS_KEPT_BY_QUOTE.items():
        kept = kept.replace(character, code)
    return kept


def decoded_component(component: str) -> str:
    """Return the text of one path component.

    Raises:
        PathError: if it is not what `encoded_component` would have written.
    """
    if not _COMPONENT.fullmatch(component):
        raise PathError(f"{component!r} has characters that should be percent-encoded")
    try:
        text = unquote_to_bytes(component).decode()
    except UnicodeDecodeError:
        raise PathError(f"{component!r} is not percent-encoded UTF-8") from None
    if encoded_component(text) != component:
        raise PathError(f"{component!r} is not in its one encoding")
    return text


_RUN_LEAF = re.compile(
    r"(?P<single>result|failure)\.json"
    r"|(?P<series>judge|transcript)\.(?P<part>[1-9][0-9]{0,5})\.ndjson"
    r"|files/(?P<name>[^/]+)"
)
_LANE_LEAF = re.compile(
    r"(?P<single>preflight|environment|redactions)\.json"
    r"|(?P<series>faults|probes)\.(?P<part>[1-9][0-9]{0,5})\.ndjson"
    r"|logs/(?P<name>[^/.]+)\.(?P<logpart>[1-9][0-9]{0,5})\.log"
)
_EPOCH = re.compile(r"[1-9][0-9]{0,5}")


def parse_path(path: str) -> ItemPath:
    """Return what `path` says.

    Raises:
        PathError: if WIRE defines no such path.

    >>> parse_path("runs/refund-twice/candidate%2Bfaults/2/judge.1.ndjson").run
    RunKey(scenario='refund-twice', arm='candidate+faults', epoch=2)
    """
    if len(path) > LONGEST_PATH:
        raise PathError(f"a path has at most {LONGEST_PATH} characters")
    head, _, rest = path.partition("/")
    if head == "lane":
        return _lane_path(path, rest)
    if head == "runs":
        return _run_path(path, rest)
    raise PathError(f"{path!r} begins with neither runs/ nor lane/")


def _lane_path(path: str, leaf: str) -> ItemPath:
    match = _LANE_LEAF.fullmatch(leaf)
    if match is None:
        raise PathError(f"{path!r} is no evidence of a lane")
    if match["single"]:
        return ItemPath(ItemKind(match["single"]))
    if match["series"]:
        return ItemPath(ItemKind(match["series"]), part=int(match["part"]))
    return ItemPath(ItemKind.LOG, part=int(match["logpart"]), name=decoded_component(match["name"]))


def _run_path(path: str, rest: str) -> ItemPath:
    parts = rest.split("/", 3)
    match = _RUN_LEAF.fullmatch(parts[3]) if len(parts) == 4 else None
    if match is None or not _EPOCH.fullmatch(parts[2]):
        raise PathError(f"{path!r} is no evidence of a run")
    run = RunKey(decoded_component(parts[0]), decoded_component(parts[1]), int(parts[2]))
    if match["single"]:
        return ItemPath(ItemKind(match["single"]), run)
    if match["series"]:
        return ItemPath(ItemKind(match["series"]), run, part=int(match["part"]))
    return ItemPath(ItemKind.FILE, run, name=decoded_component(match["name"]))


def run_folder(run: RunKey) -> str:
    """Return the folder of a run key, without a slash at its end."""
    return f"runs/{encoded_component(run.scenario)}/{encoded_component(run.arm)}/{run.epoch}"


def format_path(item: ItemPath) -> str:
    """Return the one path of a piece of evidence; `parse_path` gives the same item back."""
    folder = run_folder(item.run) if item.run is not None else "lane"
    match item.kind:
        case ItemKind.FILE:
            return f"{folder}/files/{encoded_component(item.name or '')}"
        case ItemKind.LOG:
            return f"{folder}/logs/{encoded_component(item.name or '')}.{item.part}.log"
        case ItemKind.JUDGE | ItemKind.TRANSCRIPT | ItemKind.FAULTS | ItemKind.PROBES:
            return f"{folder}/{item.kind}.{item.part}.ndjson"
    return f"{folder}/{item.kind}.json"
