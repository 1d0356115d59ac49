"""A transcript, page by page: only the parts that a page needs are read from the object store."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.records import Turn
from evalhub.web.errors import NotFoundError
from evidence.store import queries as store
from evidence.store.models import Item, Run

PAGE_CHARACTERS = 1_500_000
"""A page ends early beyond this, so that a transcript of huge turns still opens."""


class TranscriptPage(NamedTuple):
    """Some consecutive turns of a run."""

    turns: list[Turn]
    total: int
    """Turns of the whole transcript, as far as it was accepted."""
    previous: int | None
    """The turn at which the page before begins; None at the beginning."""
    next: int | None
    """The turn at which the page after begins; None at the end."""


NO_PAGE = TranscriptPage(turns=[], total=0, previous=None, next=None)
"""Of a transcript that was removed."""


class _Line(NamedTuple):
    place: int
    data: bytes

    @property
    def turn(self) -> int:
        return int(json.loads(self.data)["turn"])


def transcript_page(run: Run, *, start: int, limit: int) -> TranscriptPage:
    """Return up to `limit` turns, from the first whose number is at least `start`.

    Beyond the end it is the last page, so that a link to a turn that never came still shows what did.
    """
    parts = _parts(run)
    total = sum(part.lines or 0 for part in parts)
    first = _index_of_turn(parts, start)
    if first >= total:
        first = max(total - limit, 0)
    turns: list[Turn] = []
    characters = 0
    for line in islice(_lines(parts, first=first), limit):
        if turns and characters + len(line.data) > PAGE_CHARACTERS:
            break
        characters += len(line.data)
        turns.append(parse_document(Turn, line.data))
    after = next(_lines(parts, first=first + len(turns)), None)
    before = next(_lines(parts, first=max(first - limit, 0)), None) if first else None
    return TranscriptPage(
        turns=turns,
        total=total,
        previous=before.turn if before else None,
        next=after.turn if after else None,
    )


def turn_with_number(run: Run, number: int) -> Turn:
    """Return one turn of a run, however long it is.

    Raises:
        NotFoundError: if the transcript has no turn of that number.
    """
    page = transcript_page(run, start=number, limit=1)
    if not page.turns or page.turns[0].turn != number:
        raise NotFoundError(f"The transcript of run {run} has no turn {number}.")
    return page.turns[0]


def _parts(run: Run) -> list[Item]:
    return list(
        run.items.filter(kind=ItemKind.TRANSCRIPT).select_related("segment").order_by("part", "id")
    )


def _index_of_turn(parts: list[Item], number: int) -> int:
    """Return the place of the first turn numbered `number` or higher.

    Turns are numbered from 1 without gaps as a rule, so the place is known without reading; only
    where that fails is the transcript read from its beginning.
    """
    guess = next(_lines(parts, first=number - 1), None)
    if guess is not None and guess.turn == number:
        return guess.place
    for line in _lines(parts, first=0):
        if line.turn >= number:
            return line.place
    return sum(part.lines or 0 for part in parts)


def _lines(parts: list[Item], *, first: int) -> Iterator[_Line]:
    """Yield lines from the place `first` on; parts before it are not read."""
    passed = 0
    for part in parts:
        count = part.lines or 0
        if passed + count > first:
            lines = [line for line in store.shown_bytes(part).split(b"\n") if line.strip()]
            for place, line in enumerate(lines, start=passed):
                if place >= first:
                    yield _Line(place, line)
        passed += count
