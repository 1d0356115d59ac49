"""The records of a run and of a lane, as the documents that they are."""

from itertools import groupby
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import LANE_KINDS, ItemKind
from evalhub.protocol.records import (
    Failure,
    JudgeLine,
    LaneEnvironment,
    Preflight,
    Redactions,
    Result,
)
from evalhub.web.errors import NotFoundError
from evidence.store import queries as store
from evidence.store.models import Item, Refusal, Run
from lanes.plans.models import Attempt

Document = TypeVar("Document", bound=BaseModel)


def result(run: Run) -> Result | None:
    """Return how the run ended, as the lane wrote it; None while no result was accepted."""
    return _document(Result, run.items.filter(kind=ItemKind.RESULT).first())


def failure(run: Run) -> Failure | None:
    """Return why the run failed, if somebody said so."""
    return _document(Failure, run.items.filter(kind=ItemKind.FAILURE).first())


def judge_lines(run: Run) -> list[JudgeLine]:
    """Return every scoring of the run, by rubric, in the order in which it was written."""
    parts = run.items.filter(kind=ItemKind.JUDGE).select_related("segment").order_by("part", "id")
    lines = [
        parse_document(JudgeLine, line)
        for part in parts
        for line in store.shown_bytes(part).split(b"\n")
        if line.strip()
    ]
    return sorted(lines, key=lambda line: line.rubric)


def items(run: Run) -> list[Item]:
    """Return every piece of evidence of a run, by path."""
    return list(run.items.order_by("kind", "name", "part", "id"))


def preflight(attempt: Attempt) -> Preflight | None:
    """Return what the lane checked before it began."""
    return _document(Preflight, attempt.items.filter(kind=ItemKind.PREFLIGHT).first())


def lane_environment(attempt: Attempt) -> LaneEnvironment | None:
    """Return where the lane ran."""
    return _document(LaneEnvironment, attempt.items.filter(kind=ItemKind.ENVIRONMENT).first())


def redactions(attempt: Attempt) -> Redactions | None:
    """Return what the lane replaced before it wrote anything, and what it could not look at."""
    return _document(Redactions, attempt.items.filter(kind=ItemKind.REDACTIONS).first())


class Log(NamedTuple):
    """A log of a lane and the parts in which it came."""

    name: str
    parts: list[Item]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


def lane_logs(attempt: Attempt) -> list[Log]:
    """Return the logs of one attempt, each with its parts in order."""
    parts = attempt.items.filter(kind=ItemKind.LOG).select_related("segment")
    parts = parts.order_by("name", "part", "id")
    return [
        Log(name or "", list(group)) for name, group in groupby(parts, key=lambda part: part.name)
    ]


def lane_items(attempt: Attempt) -> list[Item]:
    """Return the evidence of the lane itself in one attempt, by path."""
    return list(attempt.items.filter(kind__in=LANE_KINDS).order_by("kind", "name", "part", "id"))


def item_with_id(item_id: int) -> Item:
    """Return an accepted item with its run, lane, plan and project.

    Raises:
        NotFoundError: if there is none.
    """
    found = (
        Item.objects.select_related("segment", "run", "attempt__lane__plan__project")
        .filter(pk=item_id)
        .first()
    )
    if found is None:
        raise NotFoundError(f"There is no item {item_id}.")
    return found


def refusal_with_id(refusal_id: int) -> Refusal:
    """Return a refusal with its plan and project.

    Raises:
        NotFoundError: if there is none.
    """
    found = (
        Refusal.objects.select_related("segment", "plan__project", "attempt__lane")
        .filter(pk=refusal_id)
        .first()
    )
    if found is None:
        raise NotFoundError(f"There is nothing in quarantine under number {refusal_id}.")
    return found


def _document(model: type[Document], item: Item | None) -> Document | None:
    return None if item is None else parse_document(model, store.shown_bytes(item))
