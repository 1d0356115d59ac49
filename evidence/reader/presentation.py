"""How evidence is laid out for reading. Pure: documents in, plain values for templates out."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import PlannedLane
from evalhub.protocol.records import MEASURED, Failure, JudgeLine, Turn
from evidence.reader.queries.records import Log
from evidence.store.models import Item, Refusal, Run
from evidence.store.queries import LaneCoverage
from lanes.plans.models import AttemptState

FOLDED_FROM = 1_200
"""Longer texts are folded, so that a page of turns can be skimmed."""
INLINE_UP_TO = 20_000
"""Longer texts are not on the page of turns at all; the turn's own page has them."""
_FOLDED_LINES = 40
_PREVIEW = 240
_PRETTY_UP_TO = 200_000
_LONGEST_LINE = 10_000

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class Passage(NamedTuple):
    """A text of a turn: shown, folded, or only begun."""

    label: str
    text: str
    characters: int
    is_folded: bool
    is_cut: bool

    @property
    def preview(self) -> str:
        return " ".join(self.text[:_PREVIEW].split())


class TurnView(NamedTuple):
    """One turn as the transcript shows it."""

    turn: Turn
    passages: list[Passage]
    body: Item | None
    """The attachment that holds the turn's long text."""
    cited_by: list[str]
    """What points at the turn: rubrics, and "failure"."""

    @property
    def heading(self) -> str:
        return (
            self.turn.tool.name if self.turn.tool is not None else self.turn.kind.replace("_", " ")
        )


class Cite(NamedTuple):
    """A link to a turn: within the page if the turn is on it."""

    turn: int
    href: str


class JudgeView(NamedTuple):
    """One judge call beside the transcript."""

    line: JudgeLine
    cites: list[Cite]


class RubricView(NamedTuple):
    """The judge calls of one rubric."""

    rubric: str
    calls: list[JudgeView]
    value: float | None


def turn_views(
    turns: Iterable[Turn], *, cited: Mapping[int, list[str]], bodies: Mapping[str, Item]
) -> list[TurnView]:
    """Return the turns of a page, long texts folded."""
    return [
        TurnView(
            turn,
            _passages(turn, most=INLINE_UP_TO),
            bodies.get(turn.body or ""),
            cited.get(turn.turn, []),
        )
        for turn in turns
    ]


def whole_turn_view(
    turn: Turn, *, cited: Mapping[int, list[str]], bodies: Mapping[str, Item]
) -> TurnView:
    """Return one turn with nothing folded or cut."""
    passages = [p._replace(is_folded=False) for p in _passages(turn, most=None)]
    return TurnView(turn, passages, bodies.get(turn.body or ""), cited.get(turn.turn, []))


def cited_turns(judged: Iterable[JudgeLine], failure: Failure | None) -> dict[int, list[str]]:
    """Return which rubrics and analyses point at which turn."""
    cited: dict[int, list[str]] = defaultdict(list)
    for turn in failure.turns if failure is not None else []:
        cited[turn].append("failure analysis")
    for line in judged:
        for turn in line.cites:
            if line.rubric not in cited[turn]:
                cited[turn].append(line.rubric)
    return dict(cited)


def cites(turns: Sequence[int], *, page: Sequence[Turn]) -> list[Cite]:
    """Return links to turns; a turn on another page is opened with a few turns before it."""
    first, last = (page[0].turn, page[-1].turn) if page else (1, 0)
    return [
        Cite(
            turn,
            f"#turn-{turn}" if first <= turn <= last else f"?from={max(turn - 5, 1)}#turn-{turn}",
        )
        for turn in turns
    ]


def rubric_views(
    lines: Iterable[JudgeLine], *, values: Mapping[str, float | None], page: Sequence[Turn]
) -> list[RubricView]:
    """Return the judge calls by rubric, each with the rubric's deciding value."""
    by_rubric: dict[str, list[JudgeView]] = defaultdict(list)
    for line in lines:
        by_rubric[line.rubric].append(JudgeView(line, cites(line.cites, page=page)))
    return [RubricView(name, calls, values.get(name)) for name, calls in by_rubric.items()]


def bodies_by_digest(items: Iterable[Item]) -> dict[str, Item]:
    """Return the attachments that hold long texts, by the digest that a turn names."""
    prefix = "body-"
    return {
        f"sha256:{item.name.removeprefix(prefix)}": item
        for item in items
        if item.name is not None and item.name.startswith(prefix)
    }


class RunRow(NamedTuple):
    """A run in a list, its scores in the order of the list's columns."""

    run: Run
    values: list[float | None]


def run_rows(
    runs: Iterable[Run],
    *,
    rubrics: Sequence[str],
    scores: Mapping[int, Mapping[str, float | None]],
) -> list[RunRow]:
    """Return the rows of a list of runs."""
    return [RunRow(run, [scores.get(run.pk, {}).get(rubric) for rubric in rubrics]) for run in runs]


class TextPage(NamedTuple):
    """Some consecutive lines of a file; no lines where it is not text."""

    lines: list[str]
    first: int
    total: int
    is_binary: bool
    previous: int | None
    next: int | None


def text_page(data: bytes, *, start: int, limit: int) -> TextPage:
    """Return up to `limit` lines from line `start` on; bytes that are not UTF-8 are replaced."""
    if b"\x00" in data[:8192]:
        return TextPage([], 1, 0, is_binary=True, previous=None, next=None)
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    first = min(start, max(len(lines), 1))
    return TextPage(
        lines=[_cut_line(line) for line in lines[first - 1 : first - 1 + limit]],
        first=first,
        total=len(lines),
        is_binary=False,
        previous=max(first - limit, 1) if first > 1 else None,
        next=first + limit if first + limit <= len(lines) else None,
    )


class LogView(NamedTuple):
    """A log with the last lines of its last part."""

    log: Log
    tail: str


def log_view(log: Log, last_part: bytes, *, tail: int) -> LogView:
    """Return a log and how it ended, which is what one looks for first."""
    lines = last_part.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return LogView(log, "\n".join(_cut_line(line) for line in lines[-tail:]))


class Owed(NamedTuple):
    """What a lane was to bring and did not: sentences, and the names of what is missing."""

    sentences: list[str]
    names: list[str]
    is_decided: bool
    """Whether its plan was concluded without it."""


def owed(
    lane: PlannedLane,
    coverage: LaneCoverage,
    *,
    outcomes: Mapping[str | None, int],
    is_decided: bool,
) -> Owed:
    """Return what a lane owes, a run key that lacks its result by its name alone."""
    names = list(coverage.lane_missing)
    for key, paths in coverage.missing.items():
        result = format_path(ItemPath(ItemKind.RESULT, key))
        names += [str(key)] if result in paths else paths
    sentences = []
    if names:
        sentences.append(
            f"{len(names)} pieces of evidence {'are missing' if is_decided else 'are not here yet'},"
            f" of {len(lane.runs)} run keys and the lane's own records."
        )
    if coverage.state is not None and not MEASURED & outcomes.keys():
        sentences.append("No run of the lane was measured.")
    if coverage.state == AttemptState.SILENT or (
        is_decided and coverage.state == AttemptState.OPEN
    ):
        sentences.append("The lane never said that it was done: its newest attempt is not sealed.")
    return Owed(sentences, names, is_decided)


def download_name(path: str) -> str:
    """Return a file name for a path of evidence: harmless on every system, and telling.

    >>> download_name("runs/refund-twice/candidate%2Bfaults/2/transcript.1.ndjson")
    'refund-twice_candidate-2Bfaults_2_transcript.1.ndjson'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.removeprefix("runs/").replace("/", "_"))
    return name.lstrip(".-")[-150:] or "evidence"


def refusal_name(refusal: Refusal) -> str:
    """Return a file name for refused bytes."""
    return download_name(refusal.shown_path or f"segment-{refusal.pk}.zip")


def indented_json(text: str) -> str:
    """Return JSON text with line breaks and indentation, every token as it was written.

    Text that is not JSON comes back as it is. Nothing is parsed and written anew: that would lose
    repeated keys and change large numbers, and the reader looks for exactly such things.

    >>> print(indented_json('{"a":[1,1e400],"a":{}}'))
    {
      "a": [
        1,
        1e400
      ],
      "a": {}
    }
    """
    if text.lstrip()[:1] not in {"{", "["} or len(text) > _PRETTY_UP_TO or not _is_json(text):
        return text
    written: list[str] = []
    depth = 0
    pieces = _PIECE.findall(text)
    for place, piece in enumerate(pieces):
        if piece in {"{", "["}:
            depth += 1
            is_empty = pieces[place + 1] in {"}", "]"}
            written.append(piece if is_empty else piece + _break(depth))
        elif piece in {"}", "]"}:
            depth -= 1
            is_empty = pieces[place - 1] in {"{", "["}
            written.append(piece if is_empty else _break(depth) + piece)
        elif piece == ",":
            written.append("," + _break(depth))
        else:
            written.append(": " if piece == ":" else piece)
    return "".join(written)


def _cut_line(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:_LONGEST_LINE]}… ({len(line):,} characters; the download has all)"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _break(depth: int) -> str:
    return "\n" + "  " * min(depth, 40)


def _passages(turn: Turn, *, most: int | None) -> list[Passage]:
    texts = [
        ("arguments", turn.tool.arguments if turn.tool is not None else None),
        ("text", turn.text),
    ]
    return [_passage(label, indented_json(text), most) for label, text in texts if text]


def _passage(label: str, text: str, most: int | None) -> Passage:
    is_cut = most is not None and len(text) > most
    return Passage(
        label=label,
        text=text[:FOLDED_FROM] if is_cut else text,
        characters=len(text),
        is_folded=len(text) > FOLDED_FROM or text.count("\n") > _FOLDED_LINES,
        is_cut=is_cut,
    )
