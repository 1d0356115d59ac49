"""From a run's folder to evidence: what the agent wrote, cut into items, and what is wrong with it.

What the agent wrote is sent as it is, also where it breaks a rule: the store judges, and keeps the
bytes in quarantine with their reason. Turning a malformed result into `infra_error` here would make
"malformed" look like "not measured", which a gate forgives. The lane adds only what it knows better:
`transcript_parts`, times that the agent left null, and a result of its own where there is none.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import LONGEST_PATH, ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.records import Failure, Result
from evalhub.protocol.scalars import Record, rfc3339
from evalhub.runner.agent_files import LARGEST_FILE_BYTES, agent_files, plain_file
from evalhub.runner.growing import WHOLE, Bounds, Taken
from evalhub.runner.members import LeftFile, Member
from evalhub.runner.spool import RunEnded
from evalhub.runner.transcripts import Ending, json_bytes, lane_turn, take_judge_lines, take_turns

_LARGEST_RECORD_BYTES = 8 * 2**20
_MOST_FILES = 1000
_MOST_SENTENCES = 5
_LONGEST_ENDING = 4000
_SHOWN_NAME = 100


@dataclass
class Harvest:
    """The evidence of one run: members by segment class, and sentences about what is wrong."""

    outcome: str | None = None
    record: list[Member] = field(default_factory=list)
    bulk: list[Member | LeftFile] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    transcript_parts: int = 0
    is_more: bool = False

    def complain(self, sentence: str) -> None:
        self.sentences.append(sentence)


class TakenRun(NamedTuple):
    """How far a run's files of lines lie in parts."""

    transcript: Taken = Taken()
    judge: Taken = Taken()


NOTHING_TAKEN = TakenRun()


class _Ending(NamedTuple):
    """The result that the lane writes where the agent left none, and why in words."""

    outcome: str
    code: str
    origin: str
    type: str
    message: str


def harvest(
    folder: Path,
    key: RunKey,
    *,
    ended: RunEnded | None,
    taken: TakenRun = NOTHING_TAKEN,
    bounds: Bounds = WHOLE,
) -> Harvest:
    """Return the evidence in a run's folder, behind what was `taken` of it while the run went on.

    `ended` says how the run ended; None for a run that the lane did not live to see ended: then there
    is no result but the one that the agent may have written. Equal folders give equal members.
    """
    found = Harvest()
    data = _content(folder, "result.json", found, most=_LARGEST_RECORD_BYTES)
    ending = _ending(ended) if data is None and ended is not None else None
    tail = ended.output_tail if ended is not None else ""
    end = Ending(is_torn=ending is not None or ended is None)
    if ending is not None:
        end = end._replace(closing_turn=lambda number: _closing_turn(ending, number, tail))
    _add_turns(folder, key, found, taken.transcript, ending=end, bounds=bounds)
    _add_result(key, data, ending, ended, found.transcript_parts, found)
    _add_judge_lines(folder, key, found, taken.judge, ending=end, bounds=bounds)
    _add_failure(folder, key, found)
    _add_files(folder, key, found)
    return found


def growth(folder: Path, key: RunKey, *, taken: TakenRun, bounds: Bounds) -> Harvest:
    """Return what is new in the transcript and the judge calls of a run that goes on: whole lines.

    `is_more` says that this was enough for one time.
    """
    found = Harvest()
    _add_turns(folder, key, found, taken.transcript, ending=None, bounds=bounds)
    _add_judge_lines(folder, key, found, taken.judge, ending=None, bounds=bounds)
    return found


def harvest_or_loss(
    folder: Path, key: RunKey, *, ended: RunEnded | None, taken: TakenRun = NOTHING_TAKEN
) -> Harvest:
    """Return the evidence in a run's folder; what nobody foresaw there costs this run alone.

    Such a run is an `infra_error` of the lane, with the sentence that says what it was.
    """
    try:
        return harvest(folder, key, ended=ended, taken=taken)
    except (OSError, ValueError, RecursionError) as error:
        reason = ascii(" ".join(str(error).split())[:_LONGEST_ENDING])
        message = f"What the run left cannot be read ({type(error).__name__}: {reason})."
    lost = Harvest(sentences=[f"{key}: {message}"])
    if ended is not None:
        ending = _Ending("infra_error", "harvest_failed", "lane", "HarvestFailed", message)
        closing = Ending(
            is_torn=True,
            closing_turn=lambda number: _closing_turn(ending, number, ended.output_tail),
        )
        # What was taken of the file stands, whatever is there now.
        turns = take_turns(
            None,
            key,
            taken.transcript._replace(marks=b""),
            ending=closing,
            bounds=WHOLE,
            tell=lost.complain,
        )
        lost.bulk += turns.members
        _add_result(key, None, ending, ended, turns.parts, lost)
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
    found.record.append(Member(path, json_bytes(document)))


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


# transcript.ndjson and judge.ndjson


def _add_turns(
    folder: Path,
    key: RunKey,
    found: Harvest,
    taken: Taken,
    *,
    ending: Ending | None,
    bounds: Bounds,
) -> None:
    faults = _Faults(found, f"{key}: transcript.ndjson")
    with _opened(folder, "transcript.ndjson", found, is_over=ending is not None) as file:
        turns = take_turns(file, key, taken, ending=ending, bounds=bounds, tell=faults.tell)
    faults.count_the_rest()
    # What a turn refers to is there before the turn, whenever the lane ends.
    for digest, body in turns.bodies.items():
        path = ItemPath(ItemKind.FILE, key, name=f"body-{digest.removeprefix('sha256:')}")
        found.bulk.append(Member(format_path(path), body))
    found.bulk += turns.members
    found.transcript_parts = turns.parts
    found.is_more = turns.is_more


def _add_judge_lines(
    folder: Path,
    key: RunKey,
    found: Harvest,
    taken: Taken,
    *,
    ending: Ending | None,
    bounds: Bounds,
) -> None:
    faults = _Faults(found, f"{key}: judge.ndjson")
    with _opened(folder, "judge.ndjson", found, is_over=ending is not None) as file:
        found.record += take_judge_lines(
            file, key, taken, ending=ending, bounds=bounds, tell=faults.tell
        )
    faults.count_the_rest()


def _closing_turn(ending: _Ending, number: int, output_tail: str) -> dict[str, Any]:
    """Return the turn by which the lane says how a run without a result ended."""
    tail = output_tail[-_LONGEST_ENDING:]
    text = f"{ending.message}\nThe end of its output:\n{tail}" if tail else ending.message
    return lane_turn("error", text, number=number)


# failure.json, files


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
            found.bulk.append(LeftFile(path, file))
    faults = _Faults(found, f"{key}: files")
    for sentence in left_out:
        faults.tell(f"{sentence} (not sent)")
    faults.count_the_rest()


# Reading what the agent wrote


@contextmanager
def _opened(
    folder: Path, name: str, found: Harvest, *, is_over: bool = True
) -> Iterator[BinaryIO | None]:
    """Open a file of the agent's folder for the block; None where there is none to be read.

    What is wrong with it is told once its run is over.
    """
    leave_out = found.complain if is_over else _say_nothing
    with plain_file(folder / name, leave_out=leave_out) as file:
        yield file


def _say_nothing(sentence: str) -> None:
    """Leave it to the end of the run to tell."""


def _content(folder: Path, name: str, found: Harvest, *, most: int) -> bytes | None:
    with _opened(folder, name, found) as file:
        if file is None:
            return None
        data = file.read(most + 1)
    if len(data) > most:
        found.complain(f"{folder / name} is larger than {most} bytes; its beginning is sent.")
    return data[:most]


def _fault(model: type[Record], data: bytes) -> str | None:
    try:
        parse_document(model, data)
    except DocumentError as error:
        return str(error)
    return None


class _Faults:
    """What is wrong with one file, in sentences: the first few, and how many more."""

    def __init__(self, found: Harvest, place: str) -> None:
        self._found = found
        self._place = place
        self._count = 0

    def tell(self, fault: str) -> None:
        self._count += 1
        if self._count <= _MOST_SENTENCES:
            self._found.complain(f"{self._place}, {fault}")

    def count_the_rest(self) -> None:
        if self._count > _MOST_SENTENCES:
            more = self._count - _MOST_SENTENCES
            self._found.complain(f"{self._place} has {more} more faults.")
