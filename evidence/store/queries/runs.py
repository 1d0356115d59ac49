"""Runs, their items and scores, and what of them a verdict rests on."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from django.db.models import QuerySet

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.segments import SegmentDigest
from evalhub.web.errors import NotFoundError
from evidence.store.models import Item, PlanCopy, Refusal, Run, Score, Segment
from lanes.plans.models import Attempt, Plan

_RECORD_KINDS = (
    ItemKind.RESULT,
    ItemKind.JUDGE,
    ItemKind.FAILURE,
    ItemKind.PREFLIGHT,
    ItemKind.ENVIRONMENT,
    ItemKind.REDACTIONS,
    ItemKind.FAULTS,
    ItemKind.PROBES,
)
_ROWS_AT_ONCE = 5_000


class RunRow(NamedTuple):
    plan_id: int
    run_id: int
    lane: str
    scenario: str
    arm: str
    epoch: int
    attempt_number: int
    outcome: str | None
    code: str | None


class ScoreRow(NamedTuple):
    plan_id: int
    run_id: int
    scenario: str
    arm: str
    epoch: int
    attempt_id: int
    attempt_number: int
    outcome: str | None
    rubric: str
    stage: str
    fingerprint: str
    value: float | None


class RecordItem(NamedTuple):
    """What the evidence digest is made of."""

    plan: str
    attempt: str
    path: str
    sha256: str


def runs_of_plan(plan: Plan) -> QuerySet[Run]:
    """Return the plan's runs with lane and attempt loaded, by run key and attempt."""
    runs = Run.objects.filter(plan=plan).select_related("lane", "attempt")
    return runs.order_by("scenario", "arm", "epoch", "attempt__number", "pk")


def run_with_id(run_id: int) -> Run:
    """Return a run with its lane, attempt, plan and project loaded.

    Raises:
        NotFoundError: if there is none.
    """
    runs = Run.objects.select_related("lane", "attempt", "plan__project").defer("plan__document")
    run = runs.filter(pk=run_id).first()
    if run is None:
        raise NotFoundError(f"There is no run {run_id}.")
    return run


def items_of_run(run: Run) -> list[Item]:
    """Return a run's items, by kind, part and path."""
    items = Item.objects.filter(run=run).select_related("segment")
    return list(items.order_by("kind", "part", "path"))


def items_of_attempt(attempt: Attempt, kind: ItemKind) -> list[Item]:
    """Return an attempt's items of one kind, by path and part."""
    items = Item.objects.filter(attempt=attempt, kind=kind).select_related("segment")
    return list(items.order_by("name", "part", "path"))


def segment_digests(attempt: Attempt) -> list[SegmentDigest]:
    """Return what was received of an attempt, by seq."""
    rows = Segment.objects.filter(attempt=attempt).order_by("seq").values_list("seq", "sha256")
    return [SegmentDigest(*row) for row in rows]


def has_rows(attempt: Attempt, object_key: str) -> bool:
    """Return whether a segment has rows: as one that was received, or that was refused as a whole."""
    return (
        Segment.objects.filter(attempt=attempt, object_key=object_key).exists()
        or Refusal.objects.filter(attempt=attempt, object_key=object_key, path="").exists()
    )


def run_rows(plan_ids: Collection[int]) -> list[RunRow]:
    """Return every run of some plans, by run key and attempt."""
    rows = Run.objects.filter(plan__in=plan_ids).order_by(
        "plan_id", "scenario", "arm", "epoch", "attempt__number", "pk"
    )
    columns = rows.values_list(
        *("plan_id", "pk", "lane__name", "scenario", "arm", "epoch"),
        *("attempt__number", "outcome", "code"),
    )
    return [RunRow._make(row) for row in columns.iterator(_ROWS_AT_ONCE)]


def score_rows(plan_ids: Collection[int]) -> Iterator[ScoreRow]:
    """Yield every score of some plans, in no order that means anything."""
    columns = Score.objects.filter(run__plan__in=plan_ids).values_list(
        *("run__plan_id", "run_id", "run__scenario", "run__arm", "run__epoch"),
        *("run__attempt_id", "run__attempt__number", "run__outcome"),
        *("rubric", "stage", "fingerprint", "value"),
    )
    return map(ScoreRow._make, columns.iterator(_ROWS_AT_ONCE))


def record_items(plan_ids: Iterable[int]) -> list[RecordItem]:
    """Return the accepted items of class record of some plans."""
    items = Item.objects.filter(attempt__lane__plan__in=plan_ids, kind__in=_RECORD_KINDS)
    columns = items.values_list("attempt__lane__plan__digest", "attempt__key", "path", "sha256")
    return [RecordItem._make(row) for row in columns.order_by("pk").iterator(_ROWS_AT_ONCE)]


def are_being_rebuilt(plan_ids: Collection[int]) -> bool:
    """Return whether rows of some of these plans are being made again: what is there is a part."""
    return PlanCopy.objects.filter(plan__in=plan_ids, rebuild_counted__isnull=False).exists()
