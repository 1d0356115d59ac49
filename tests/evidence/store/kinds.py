"""What a kind of refusal is, for the tables of them: how it is sent, and what must be said of it."""

import io
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import run_folder
from evidence.store import queries
from evidence.store.models import Item, Refusal
from lanes.budget import queries as budget_queries
from lanes.plans.models import Attempt
from tests.evidence.factories import (
    Json,
    first_run_key,
    judge_line,
    make_segment,
    ndjson,
    next_seq,
    result_bytes,
    turn_line,
)
from tests.evidence.store.bent_archives import Entry

COST = 300
KNOWN, UNKNOWN, FREE = (COST, 0), (0, 1), (0, 0)
"""What the plan has spent afterwards: micro-dollars, and calls whose cost nobody knows."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way in which evidence does not count."""

    name: str
    origin: str
    """Who refuses it: DESIGN or WIRE, and what hve-core and GAIA call it."""
    category: str
    code: str
    words: str
    """A part of the sentence."""
    data: Callable[[Attempt], bytes]
    """Return the segment to send, with seq `next_seq`; it may send others before."""
    path: str | None = None
    """What is refused: the end of an item's path; None where it is the whole segment."""
    money: tuple[int, int] = KNOWN

    def __str__(self) -> str:
        return self.name


def folder_of(attempt: Attempt) -> str:
    return run_folder(first_run_key(attempt))


def call(**fields: Any) -> Json:
    """Return a judge line that costs `COST`."""
    return judge_line(**{"cost_microusd": COST, **fields})


def judged(attempt: Attempt, *lines: Json) -> dict[str, bytes]:
    """Return a judge item whose cost must be in the ledger, whatever becomes of it."""
    return {f"{folder_of(attempt)}/judge.9.ndjson": ndjson(*(lines or [call()]))}


def sound_entries(attempt: Attempt) -> list[Entry]:
    """Return the members of a sound segment: header, result, judge item."""
    members = {f"{folder_of(attempt)}/result.json": result_bytes(), **judged(attempt)}
    data = make_segment(attempt, members, seq=next_seq(attempt))
    with zipfile.ZipFile(io.BytesIO(data)) as made:
        return [Entry(name=name.encode(), data=made.read(name)) for name in made.namelist()]


def segment(attempt: Attempt, members: dict[str, bytes], **header: Any) -> bytes:
    """Return the bytes of the attempt's next segment."""
    return make_segment(attempt, members, **{"seq": next_seq(attempt), **header})


def turns(*changes: Json) -> bytes:
    return ndjson(*({**turn_line(n), **change} for n, change in enumerate(changes, start=1)))


def assert_kept(kind: Kind, attempt: Attempt, data: bytes) -> Refusal:
    """See that what was refused lies in quarantine as it came, is paid for, and counts for nothing."""
    refusal = Refusal.objects.filter(attempt=attempt).order_by("pk").last()
    assert refusal is not None
    assert (refusal.category, refusal.code) == (kind.category, kind.code)
    assert_sentence(kind, refusal.detail)
    assert refusal.path.endswith(kind.path or "")
    assert bool(refusal.path) == (kind.path is not None)
    kept = queries.refusal_bytes(refusal)
    if kind.path is None:
        assert kept == data
    assert bytes_digest(kept) == refusal.sha256
    assert not Item.objects.filter(attempt=attempt, sha256=refusal.sha256).exists()
    found = budget_queries.spend_of_plan(attempt.lane.plan.digest)
    lane = {row.lane: row for row in found.by_lane}.get(attempt.lane.name)
    spent = (0, 0) if lane is None else (lane.spent_microusd, lane.unknown_calls)
    assert spent == kind.money
    return refusal


def assert_sentence(kind: Kind, detail: str) -> None:
    assert kind.words in detail
    assert detail.endswith(".")
    assert "\n" not in detail


def named(kinds: Iterable[Kind]) -> list[Kind]:
    """Return kinds of which no two have one name."""
    listed = list(kinds)
    assert len({kind.name for kind in listed}) == len(listed)
    return listed
