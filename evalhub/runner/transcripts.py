"""From the lines of `transcript.ndjson` and `judge.ndjson` to parts, with what the lane must say of them."""

import json
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.plan import RunKey
from evalhub.protocol.records import JudgeLine, Turn
from evalhub.runner.documents import JsonObject
from evalhub.runner.growing import Bounds, PartsOf, Reading, Taken, mark_of, read_on, subjects
from evalhub.runner.members import Member

BODY_BYTES = 64 * 1024
_LAST_TURN = 1_000_000

Tell = Callable[[str], None]


class Ending(NamedTuple):
    """How a file ends: what is known once nothing writes to it any more."""

    is_torn: bool
    """Whether the end of its run may have cut its last line short."""
    closing_turn: Callable[[int], JsonObject] | None = None
    """Returns the lane's own last turn, of that number; None where the agent's own result stands."""


class TakenTurns(NamedTuple):
    """Fresh parts of a transcript, the long texts that they refer to, and how many parts there are now."""

    members: list[Member]
    bodies: dict[str, bytes]
    parts: int
    is_more: bool
    """Whether more can be taken at once: this much was enough for one time."""


def take_turns(
    file: BinaryIO | None,
    key: RunKey,
    taken: Taken,
    *,
    ending: Ending | None,
    bounds: Bounds,
    tell: Tell,
) -> TakenTurns:
    """Return what is fresh in a transcript; without an `ending`, of a run that goes on."""
    reading = _read(file, taken, ending, bounds, tell)
    parts = PartsOf(ItemKind.TRANSCRIPT, key, taken, kept=reading.kept)
    turns = _Turns(parts, taken, tell, is_torn=ending is not None and ending.is_torn)
    is_more = False
    if reading.lost:
        turns.rewritten(reading)
    for line in reading.fresh:
        if parts.size_bytes + turns.body_bytes > bounds.at_once_bytes:
            is_more = True
            break
        turns.add(line.number, line.data)
    if ending is not None and ending.closing_turn is not None and not is_more:
        turns.close(ending.closing_turn)
    parts.end_part()
    return TakenTurns(parts.members, turns.bodies, parts.parts, is_more)


def take_judge_lines(
    file: BinaryIO | None,
    key: RunKey,
    taken: Taken,
    *,
    ending: Ending | None,
    bounds: Bounds,
    tell: Tell,
) -> list[Member]:
    """Return the parts of what is fresh among a run's judge calls.

    Where the file was rewritten, what was taken before is not sent twice, and a line that tells another
    story of a call goes into a part of its own: the store refuses that one, and nothing else with it.
    """
    reading = _read(file, taken, ending, bounds, tell)
    known: set[bytes] = set()
    if reading.lost:
        tell(_rewritten(reading))
        known = taken.marks_ever()
    told_of = subjects(known)
    parts = PartsOf(ItemKind.JUDGE, key, taken, kept=reading.kept)
    contradictions = []
    for line in reading.fresh:
        try:
            about = str(parse_document(JudgeLine, line.data).call_id)
        except DocumentError as error:
            tell(f"line {line.number}: {error}")
            about = ""
        mark = mark_of(line.data, about=about)
        if mark in known:
            parts.pass_over(mark)
        elif about and not told_of.isdisjoint(subjects([mark])):
            parts.pass_over(mark)
            contradictions.append(line.data)
        else:
            parts.add(line.data, mark=mark)
    parts.end_part()
    for data in contradictions:
        parts.add(data)
    parts.end_part()
    return parts.members


class _Turns:
    """Turns on their way into parts."""

    def __init__(self, parts: PartsOf, taken: Taken, tell: Tell, *, is_torn: bool) -> None:
        self._parts = parts
        self._taken = taken
        self._tell = tell
        self._is_torn = is_torn
        self._is_renumbering = False
        self.bodies: dict[str, bytes] = {}
        self.body_bytes = 0

    def rewritten(self, reading: Reading) -> None:
        """Say in words and as a turn that lines which were taken are not there any more."""
        sentence = _rewritten(reading)
        self._tell(sentence)
        number = self._parts.turn + 1
        if number <= _LAST_TURN:
            text = (
                f"transcript.ndjson, {sentence}. The turns above are as they were first written. What "
                "stands in their place now follows; where its numbers stand above already, they go on "
                "from here, and `extra.written_as_turn` is the number in the file."
            )
            self._parts.add(json_bytes(lane_turn("note", text, number=number)))
            self._parts.turn = number
        self._is_renumbering = True

    def add(self, number: int, line: bytes) -> None:
        try:
            turn = parse_document(Turn, line)
        except DocumentError as error:
            if self._is_torn and not line.endswith(b"\n"):
                self._tell(f"line {number} was cut short when the run ended; it is left out")
                return
            self._tell(f"line {number}: {error}")
            self._parts.add(line, mark=mark_of(line))
            return
        self._add_turn(turn, line)

    def _add_turn(self, turn: Turn, line: bytes) -> None:
        parts = self._parts
        if self._is_renumbering:
            self._is_renumbering = False
            parts.shift = max(0, parts.turn + 1 - turn.turn)
            parts.shifted_from = turn.turn
        sent = line
        number = turn.turn + parts.shift
        if parts.shift and number <= _LAST_TURN:
            sent = _renumbered(line, shift=parts.shift, since=parts.shifted_from)
        else:
            number = turn.turn
        short = _with_bodies_apart(turn, sent, self.bodies)
        self.body_bytes += max(0, len(sent) - len(short))
        parts.add(short, mark=mark_of(line))
        parts.turn = max(parts.turn, number)

    def close(self, closing_turn: Callable[[int], JsonObject]) -> None:
        if self._taken.is_closed:
            return
        if self._parts.turn >= _LAST_TURN:
            # The agent's own number would make the lane's turn, and with it the part, malformed.
            self._tell("no number is left for the lane's closing turn; it is left out")
            return
        number = self._parts.turn + 1
        self._parts.add(json_bytes(closing_turn(number)))
        self._parts.turn = number
        self._parts.is_closed = True


def _read(
    file: BinaryIO | None, taken: Taken, ending: Ending | None, bounds: Bounds, tell: Tell
) -> Reading:
    if file is None:
        # It may be about to be put in its place again.
        return Reading(0, taken.lines if ending is not None else 0, iter(()))
    return read_on(file, taken, is_over=ending is not None, bounds=bounds, leave_out=tell)


def _rewritten(reading: Reading) -> str:
    what = "a line was" if reading.lost == 1 else f"{reading.lost} lines were"
    return (
        f"{what} changed or removed after being sent, from line {reading.kept + 1} of those that are "
        "not blank; what was sent stays, and what is new is sent too"
    )


def lane_turn(kind: str, text: str, *, number: int) -> JsonObject:
    """Return a turn by which the lane itself says something."""
    return {
        "turn": number,
        "role": "environment",
        "kind": kind,
        "text": text,
        "extra": {"by": "lane"},
    }


def _renumbered(line: bytes, *, shift: int, since: int) -> bytes:
    document = json.loads(line)
    extra = {**document.get("extra", {}), "written_as_turn": document["turn"]}
    parent = document.get("parent_turn")
    if parent is not None and parent >= since:
        document["parent_turn"] = parent + shift
    return json_bytes({**document, "turn": document["turn"] + shift, "extra": extra})


def _with_bodies_apart(turn: Turn, line: bytes, bodies: dict[str, bytes]) -> bytes:
    """Return a turn's line; a text over the limit becomes an attachment to which the turn refers."""
    if len(line) <= BODY_BYTES or turn.body is not None:
        return line
    document: dict[str, Any] = json.loads(line)
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
    return json_bytes(document)


def json_bytes(document: object) -> bytes:
    """Return one line of JSON, in UTF-8 if that holds it: half of a pair of surrogates stays an escape."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"
