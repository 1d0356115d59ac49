"""From a run's folder to evidence: what the agent wrote, cut into items, and what is wrong with it.

What the agent wrote is sent as it is, also where it breaks a rule: the store judges, and keeps the
bytes in quarantine with their reason. Turning a malformed result into `infra_error` here would make
"malformed" look like "not measured", which a gate forgives. The lane adds only what it knows better:
`transcript_parts`, times that the agent left null, and a result of its own where there is none.
"""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import LONGEST_PATH, ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.records import Failure, JudgeLine, Result, Turn
from evalhub.protocol.scalars import Record, rfc3339
from evalhub.runner.agent_files import agent_files
from evalhub.runner.members import Member
from evalhub.runner.spool import RunEnded

PART_BYTES = 1_000_000
BODY_BYTES = 64 * 1024
LARGEST_FILE_BYTES = 64 * 2**20
_LARGEST_RECORD_BYTES = 8 * 2**20
_MOST_FILES = 1000
_MOST_SENTENCES = 5
_LONGEST_ENDING = 4000
_LAST_TURN = 1_000_000
_SHOWN_NAME = 100


@dataclass
class Harvest:
    """The evidence of one run: members by segment class, and sentences about what is wrong."""

    outcome: str | None = None
    record: list[Member] = field(default_factory=list)
    bulk: list[Member] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    def complain(self, sentence: str) -> None:
        self.sentences.append(sentence)


class _Lines(NamedTuple):
    parts: list[bytes]
    bodies: dict[str, bytes]


class _Ending(NamedTuple):
    """The result that the lane writes where the agent left none, and why in words."""

    outcome: str
    code: str
    origin: str
    type: str
    message: str


def harvest(folder: Path, key: RunKey, *, ended: RunEnded | None) -> Harvest:
    """Return the evidence in a run's folder.

    `ended` says how the run ended; None for a run that the lane did not live to see ended: then there
    is no result but the one that the agent may have written. Equal folders give equal members.
    """
    found = Harvest()
    data = _content(folder, "result.json", found, most=_LARGEST_RECORD_BYTES)
    ending = _ending(ended) if data is None and ended is not None else None
    tail = ended.output_tail if ended is not None else ""
    is_torn = ending is not None or ended is None
    lines = _transcript(folder, key, found, ending=ending, output_tail=tail, is_torn=is_torn)
    _add_result(key, data, ending, ended, len(lines.parts), found)
    _add_parts(ItemKind.TRANSCRIPT, key, lines.parts, found.bulk)
    for digest, body in lines.bodies.items():
        path = ItemPath(ItemKind.FILE, key, name=f"body-{digest.removeprefix('sha256:')}")
        found.bulk.append(Member(format_path(path), body))
    _add_judge_lines(folder, key, found)
    _add_failure(folder, key, found)
    _add_files(folder, key, found)
    return found


def harvest_or_loss(folder: Path, key: RunKey, *, ended: RunEnded | None) -> Harvest:
    """Return the evidence in a run's folder; what nobody foresaw there costs this run alone.

    Such a run is an `infra_error` of the lane, with the sentence that says what it was.
    """
    try:
        return harvest(folder, key, ended=ended)
    except (OSError, ValueError, RecursionError) as error:
        reason = ascii(" ".join(str(error).split())[:_LONGEST_ENDING])
        message = f"What the run left cannot be read ({type(error).__name__}: {reason})."
    lost = Harvest(sentences=[f"{key}: {message}"])
    if ended is not None:
        ending = _Ending("infra_error", "harvest_failed", "lane", "HarvestFailed", message)
        turn = _json_bytes(_closing_turn(ending, 1, ended.output_tail))
        _add_parts(ItemKind.TRANSCRIPT, key, [turn], lost.bulk)
        _add_result(key, None, ending, ended, 1, lost)
    return lost


def _ending(ended: RunEnded) -> _Ending:
    match ended.how:
        case "setup_error":
            message = f"The command could not start: {ended.error}."
            return _Ending(
                "setup_error", "command_not_started", "setup", "CommandNotStarted", message
            )
        case "timeout":
            message = "The lane's time was over before the command ended."
            return _Ending("timeout", "lane_time_over", "unknown", "LaneTimeOver", message)
        case "not_started":
            message = "The lane's time was over before the run could start."
            return _Ending("skipped", "lane_time_over", "lane", "NotStarted", message)
        case "budget_exceeded":
            message = "The lane's judge money was spent before the run could start."
            return _Ending("budget_exceeded", "lane_budget_spent", "lane", "NotStarted", message)
        case "guardian_lost":
            message = ended.error or "The command's guardian was killed."
            return _Ending("infra_error", "guardian_lost", "lane", "GuardianLost", message)
    code = ended.exit_code or 0
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    # Exit code 0 without a result is the agent's doing as well: it was asked for one.
    return _Ending(
        "agent_error",
        "no_result",
        "agent",
        "NoResult",
        f"The command {how} and left no result.json.",
    )


# result.json


def _add_result(
    key: RunKey,
    data: bytes | None,
    ending: _Ending | None,
    ended: RunEnded | None,
    parts: int,
    found: Harvest,
) -> None:
    path = format_path(ItemPath(ItemKind.RESULT, key))
    if ending is not None and ended is not None:
        document = _made_result(ending, ended, parts)
    elif data is None:
        return
    else:
        try:
            found.outcome = parse_document(Result, data).outcome
        except DocumentError as error:
            if ended is None:
                found.complain(f"{key}: result.json was cut short with the lane and is left out.")
                return
            found.complain(f"{key}: result.json is not valid: {error}")
            found.record.append(Member(path, data))
            return
        document = _completed_result(json.loads(data), ended, parts)
    found.outcome = document["outcome"]
    found.record.append(Member(path, _json_bytes(document)))


def _made_result(ending: _Ending, ended: RunEnded, parts: int) -> dict[str, Any]:
    return {
        "outcome": ending.outcome,
        "code": ending.code,
        **_times(ended),
        "error": {"origin": ending.origin, "type": ending.type, "message": ending.message},
        "transcript_parts": parts,
        "extra": {"by": "lane"},
    }


def _completed_result(
    document: dict[str, Any], ended: RunEnded | None, parts: int
) -> dict[str, Any]:
    known = _times(ended) if ended is not None else {}
    measured = {name: value for name, value in known.items() if document.get(name) is None}
    return {**document, **measured, "transcript_parts": parts}


def _times(ended: RunEnded) -> dict[str, Any]:
    return {
        "started_at": rfc3339(ended.started_at),
        "finished_at": rfc3339(ended.finished_at),
        "duration_ms": ended.duration_ms,
    }


# transcript.ndjson


def _transcript(
    folder: Path,
    key: RunKey,
    found: Harvest,
    *,
    ending: _Ending | None,
    output_tail: str,
    is_torn: bool,
) -> _Lines:
    parts = _Parts()
    bodies: dict[str, bytes] = {}
    last_turn = 0
    faults: list[str] = []
    for number, line in enumerate(_lines(folder, "transcript.ndjson", found), 1):
        try:
            turn = parse_document(Turn, line)
        except DocumentError as error:
            if is_torn and not line.endswith(b"\n"):
                faults.append(f"line {number} was cut short when the run ended; it is left out")
                continue
            faults.append(f"line {number}: {error}")
            parts.add(line)
            continue
        last_turn = max(last_turn, turn.turn)
        parts.add(_with_bodies_apart(turn, line, bodies))
    _tell(found, f"{key}: transcript.ndjson", faults)
    if ending is not None and last_turn >= _LAST_TURN:
        # The agent's own number would make the lane's turn, and with it the part, malformed.
        found.complain(f"{key}: no number is left for the lane's closing turn; it is left out.")
    elif ending is not None:
        parts.add(_json_bytes(_closing_turn(ending, last_turn + 1, output_tail)))
    return _Lines(parts.done(), bodies)


def _closing_turn(ending: _Ending, number: int, output_tail: str) -> dict[str, Any]:
    """Return the turn by which the lane says how a run without a result ended."""
    tail = output_tail[-_LONGEST_ENDING:]
    text = f"{ending.message}\nThe end of its output:\n{tail}" if tail else ending.message
    return {
        "turn": number,
        "role": "environment",
        "kind": "error",
        "text": text,
        "extra": {"by": "lane"},
    }


def _with_bodies_apart(turn: Turn, line: bytes, bodies: dict[str, bytes]) -> bytes:
    """Return a turn's line; a text over the limit becomes an attachment to which the turn refers."""
    if len(line) <= BODY_BYTES or turn.body is not None:
        return line
    document = json.loads(line)
    text, arguments = turn.text, turn.tool.arguments if turn.tool is not None else None
    if text is not None and len(text.encode()) > BODY_BYTES:
        document["text"], long = None, text
    elif text is None and arguments is not None and len(arguments.encode()) > BODY_BYTES:
        # A turn has one body, so arguments go there only where there is no text to mistake them for.
        document["tool"]["arguments"], long = None, arguments
        document["extra"] = {**document.get("extra", {}), "body_of": "arguments"}
    else:
        return line
    digest = bytes_digest(long.encode())
    document["body"] = digest
    bodies[digest] = long.encode()
    return _json_bytes(document)


class _Parts:
    """Lines in parts of at most a megabyte, unless one line alone is longer."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, line: bytes) -> None:
        whole = line if line.endswith(b"\n") else line + b"\n"
        if self._lines and self._size + len(whole) > PART_BYTES:
            self._flush()
        self._lines.append(whole)
        self._size += len(whole)

    def done(self) -> list[bytes]:
        if self._lines:
            self._flush()
        return self._parts

    def _flush(self) -> None:
        self._parts.append(b"".join(self._lines))
        self._lines, self._size = [], 0


def _add_parts(kind: ItemKind, key: RunKey, parts: list[bytes], into: list[Member]) -> None:
    for number, part in enumerate(parts, 1):
        into.append(Member(format_path(ItemPath(kind, key, part=number)), part))


# judge.ndjson, failure.json, files


def _add_judge_lines(folder: Path, key: RunKey, found: Harvest) -> None:
    parts = _Parts()
    faults = []
    for number, line in enumerate(_lines(folder, "judge.ndjson", found), 1):
        parts.add(line)
        fault = _fault(JudgeLine, line)
        if fault is not None:
            faults.append(f"line {number}: {fault}")
    _tell(found, f"{key}: judge.ndjson", faults)
    _add_parts(ItemKind.JUDGE, key, parts.done(), found.record)


def _add_failure(folder: Path, key: RunKey, found: Harvest) -> None:
    data = _content(folder, "failure.json", found, most=_LARGEST_RECORD_BYTES)
    if data is None:
        return
    fault = _fault(Failure, data)
    if fault is not None:
        found.complain(f"{key}: failure.json is not valid: {fault}")
    found.record.append(Member(format_path(ItemPath(ItemKind.FAILURE, key)), data))


def _add_files(folder: Path, key: RunKey, found: Harvest) -> None:
    taken = {member.path for member in found.bulk}
    left_out: list[str] = []
    for file in agent_files(folder / "files", leave_out=left_out.append):
        path = format_path(ItemPath(ItemKind.FILE, key, name=file.name))
        if len(taken) >= _MOST_FILES:
            left_out.append(f"only {_MOST_FILES} files are taken; the rest stays behind")
            break
        if len(path) > LONGEST_PATH:
            left_out.append(f"files/{file.name[:_SHOWN_NAME]}… has a name that is too long")
        elif file.size_bytes > LARGEST_FILE_BYTES:
            left_out.append(
                f"files/{file.name} has {file.size_bytes} bytes; "
                f"at most {LARGEST_FILE_BYTES} are taken"
            )
        elif path not in taken:
            taken.add(path)
            found.bulk.append(Member(path, file.path))
    _tell(found, f"{key}: files", [f"{sentence} (not sent)" for sentence in left_out])


# Reading what the agent wrote


def _opened(folder: Path, name: str, found: Harvest) -> BinaryIO | None:
    """Open a file of the agent's folder: never through a link, never a pipe that would block."""
    path = folder / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        found.complain(f"{path} cannot be read and is not sent: {error.strerror}.")
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        found.complain(f"{path} is no plain file and is not sent.")
        return None
    return os.fdopen(handle, "rb")


def _content(folder: Path, name: str, found: Harvest, *, most: int) -> bytes | None:
    file = _opened(folder, name, found)
    if file is None:
        return None
    with file:
        data = file.read(most + 1)
    if len(data) > most:
        found.complain(f"{folder / name} is larger than {most} bytes; its beginning is sent.")
    return data[:most]


def _lines(folder: Path, name: str, found: Harvest) -> Iterator[bytes]:
    file = _opened(folder, name, found)
    if file is None:
        return
    with file:
        for line in file:
            if line.strip():
                yield line


def _fault(model: type[Record], data: bytes) -> str | None:
    try:
        parse_document(model, data)
    except DocumentError as error:
        return str(error)
    return None


def _tell(found: Harvest, place: str, faults: list[str]) -> None:
    for fault in faults[:_MOST_SENTENCES]:
        found.complain(f"{place}, {fault}")
    if len(faults) > _MOST_SENTENCES:
        found.complain(f"{place} has {len(faults) - _MOST_SENTENCES} more faults.")


def _json_bytes(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
