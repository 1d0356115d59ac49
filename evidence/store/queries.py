"""Reads: runs, items and their bytes, scores, refusals, and what is still missing."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.db.models import Count, QuerySet

from evalhub.protocol.archive import (
    member_in_window,
    open_archive,
    read_member,
    stored_bytes_of,
    window_bytes,
)
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.coverage import RunEvidence, missing_lane_evidence, missing_run_evidence
from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import LANE_KINDS, ItemKind
from evalhub.protocol.plan import PlannedLane, RunKey
from evalhub.protocol.records import AGENT_FAULTS, MEASURED, LaneEnvironment
from evalhub.protocol.segments import Category, SegmentDigest
from evalhub.protocol.zip_structure import ArchiveError, ArchiveLimits
from evalhub.web.errors import DomainError, NotFoundError
from evidence.store.models import (
    LONGEST_KEPT_PATH,
    Item,
    JudgeCall,
    PlanCopy,
    Refusal,
    Run,
    Score,
    Segment,
    StorageFault,
    StorageOperation,
)
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Lane, Plan

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


class EvidenceDamagedError(DomainError):
    """Stored bytes are not those that were acknowledged."""

    status = 500
    code = "evidence-damaged"
    fix = (
        "Tell whoever runs this server: its object store has lost or changed bytes, or is not the one "
        "that they were put into (another bucket, a volume that is not mounted)."
    )


class LaneCoverage(NamedTuple):
    """What is missing of a lane, counted over all its attempts."""

    lane: str
    missing: dict[RunKey, list[str]]
    lane_missing: list[str]
    state: str | None
    """Of the newest attempt; None when none was opened."""
    accepted: int
    refused: int
    last_heard_at: datetime | None


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


class ReportedEnvironment(NamedTuple):
    """Where a lane says that one of its attempts ran."""

    lane: str
    attempt: str
    environment: LaneEnvironment


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


def item_bytes(item: Item) -> bytes:
    """Return an item's bytes, read by one range of its segment and compared with their digest.

    Raises:
        EvidenceDamagedError: if the bytes are not those that were acknowledged.
    """
    with _kept(item.path):
        window = object_store().read_range(
            item.segment.object_key,
            offset=item.header_offset,
            length=window_bytes(item.path, stored_bytes=item.stored_bytes),
        )
    try:
        data = member_in_window(
            window, item.path, stored_bytes=item.stored_bytes, size_bytes=item.size_bytes
        )
    except ArchiveError as error:
        raise EvidenceDamagedError(f"{item.path} cannot be read back: {error}") from error
    if bytes_digest(data) != item.sha256:
        raise EvidenceDamagedError(f"{item.path} has changed since it was stored.")
    return data


@contextmanager
def _kept(what: str) -> Iterator[None]:
    """Read what a row vouches for: that it is absent is no wrong address, but a loss."""
    try:
        yield
    except ObjectMissingError as error:
        raise EvidenceDamagedError(f"{what} is not in the object store any more.") from error


def refusals_of_plan(plan: Plan) -> QuerySet[Refusal]:
    """Return the plan's quarantine, newest first."""
    refusals = Refusal.objects.filter(plan=plan).select_related("attempt__lane")
    return refusals.order_by("-refused_at", "-pk")


def refusal_bytes(refusal: Refusal) -> bytes:
    """Return quarantined bytes; the stored form where they cannot be inflated.

    Raises:
        EvidenceDamagedError: if they are not there any more.
    """
    with _kept(refusal.path or "The segment"), object_store().open(refusal.object_key) as file:
        if not refusal.path:
            return file.read()
        for member in open_archive(file, limits=ArchiveLimits()).members:
            if member.path[:LONGEST_KEPT_PATH] == refusal.path:
                try:
                    return read_member(file, member, cap=member.size_bytes)
                except ArchiveError:
                    return stored_bytes_of(file, member)
    raise EvidenceDamagedError(f"{refusal.path} is not in its segment any more.")


def segment_digests(attempt: Attempt) -> list[SegmentDigest]:
    """Return what was received of an attempt, by seq."""
    rows = Segment.objects.filter(attempt=attempt).order_by("seq").values_list("seq", "sha256")
    return [SegmentDigest(*row) for row in rows]


class PlanFacts(NamedTuple):
    """What intake and coverage ask of a plan again and again."""

    owners: Mapping[RunKey, str]
    """The name of the lane that owns each run key."""
    commits: Mapping[str, str | None]
    """The commit that each lane runs, by the lane's name."""
    judged: frozenset[str]
    """The plan's rubrics that a judge scores."""
    measured: frozenset[str]
    """The plan's rubrics that are read from results (`from: result`)."""


def plan_facts(plan: Plan) -> PlanFacts:
    """Return the facts of a plan. Made once and kept: a digest names them for good."""
    return _facts_of(plan.digest)


@lru_cache(maxsize=32)
def _facts_of(digest: str) -> PlanFacts:
    plan = plans_queries.plan_with_digest(digest)
    document = plans_queries.plan_document(plan)
    known = plans_queries.policy_document(plan.policy).rubrics
    rubrics = [name for name in document.rubrics if name in known]
    return PlanFacts(
        owners={key: lane.name for lane in document.lanes for key in lane.run_keys},
        # Registration has seen to it that a lane runs arms of one commit.
        commits={lane.name: document.arm(lane.run_keys[0].arm).sha for lane in document.lanes},
        judged=frozenset(name for name in rubrics if known[name].source == "judge"),
        measured=frozenset(name for name in rubrics if known[name].source == "result"),
    )


def missing_evidence(plan: Plan, *, with_advisory: bool = False) -> list[LaneCoverage]:
    """Return what each required lane still owes, in the plan's order; other lanes if asked for."""
    document = plans_queries.plan_document(plan)
    lanes = [lane for lane in document.lanes if lane.is_required or with_advisory]
    rows = {lane.name: lane for lane in Lane.objects.filter(plan=plan)}
    return [lane_coverage(rows[lane.name], planned=lane) for lane in lanes]


def lane_coverage(lane: Lane, *, planned: PlannedLane) -> LaneCoverage:
    """Return what one lane still owes.

    Of several runs of a run key the measured ones count, or all if none is measured; the one that
    lacks least speaks for the key.
    """
    newest = Attempt.objects.filter(lane=lane).order_by("-number").first()
    items = Item.objects.filter(attempt__lane=lane)
    # By kind: "of no run" would be looked up in an index where it stands for the lanes of all plans.
    lane_paths = items.filter(kind__in=LANE_KINDS).values_list("path", flat=True)
    return LaneCoverage(
        lane.name,
        _missing_of_runs(lane, planned),
        missing_lane_evidence(planned, lane_paths),
        newest.state if newest is not None else None,
        items.count(),
        Refusal.objects.filter(attempt__lane=lane).count(),
        newest.last_heard_at if newest is not None else None,
    )


def _missing_of_runs(lane: Lane, planned: PlannedLane) -> dict[RunKey, list[str]]:
    judged = plan_facts(lane.plan).judged
    runs = _counting_evidence(lane)
    first = {key: found[0] for key, found in runs.items()}
    missing = missing_run_evidence(planned, first, judged_rubrics=judged)
    for layer in range(1, max((len(found) for found in runs.values()), default=0)):
        again = {key: runs[key][layer] for key in missing if len(runs.get(key, ())) > layer}
        less = missing_run_evidence(planned, again, judged_rubrics=judged)
        for key in again:
            missing[key] = min(missing[key], less.get(key, []), key=len)
    return {key: paths for key, paths in missing.items() if paths}


def _counting_evidence(lane: Lane) -> dict[RunKey, list[RunEvidence]]:
    parts: dict[int, set[int]] = defaultdict(set)
    transcripts = Item.objects.filter(run__lane=lane, kind=ItemKind.TRANSCRIPT)
    for run_id, part in transcripts.values_list("run_id", "part"):
        parts[run_id or 0].add(part or 0)
    judged: dict[int, set[str]] = defaultdict(set)
    calls = JudgeCall.objects.filter(run__lane=lane)
    for run_id, rubric in calls.values_list("run_id", "rubric").distinct():
        judged[run_id].add(rubric)
    evidence: dict[RunKey, list[RunEvidence]] = defaultdict(list)
    for run in Run.objects.filter(lane=lane).order_by("pk"):
        evidence[RunKey(run.scenario, run.arm, run.epoch)].append(
            RunEvidence(
                run.outcome,
                run.transcript_parts,
                frozenset(parts[run.pk]),
                frozenset(judged[run.pk]),
            )
        )
    return {key: _counting(found) for key, found in evidence.items()}


def _counting(found: list[RunEvidence]) -> list[RunEvidence]:
    measured = [evidence for evidence in found if evidence.outcome in MEASURED | AGENT_FAULTS]
    return measured or found


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


def lane_environments(plan: Plan) -> list[ReportedEnvironment]:
    """Return where each attempt of each lane says that it ran, in the order of the attempts."""
    items = Item.objects.filter(attempt__lane__plan=plan, kind=ItemKind.ENVIRONMENT).select_related(
        "segment", "attempt__lane"
    )
    return [
        ReportedEnvironment(
            item.attempt.lane.name,
            item.attempt.key,
            parse_document(LaneEnvironment, item_bytes(item)),
        )
        for item in items.order_by("attempt__lane_id", "attempt__number", "pk")
    ]


def are_being_rebuilt(plan_ids: Collection[int]) -> bool:
    """Return whether rows of some of these plans are being made again: what is there is a part."""
    return PlanCopy.objects.filter(plan__in=plan_ids, rebuild_counted__isnull=False).exists()


def refusal_counts(plan: Plan) -> dict[str, int]:
    """Return how many items of a plan were refused, by category."""
    counts = Refusal.objects.filter(plan=plan).values_list("category").annotate(count=Count("pk"))
    return dict(counts.order_by("category"))


def recent_refusal_counts(since: datetime, *, most: int) -> dict[str, int]:
    """Return how many items were refused from `since` on, by category.

    Of all plans, so only the newest `most` are looked at: the time has no index of its own.
    """
    newest = Refusal.objects.order_by("-pk").values_list("category", "refused_at")[:most]
    counts = dict.fromkeys((str(c) for c in Category if c is not Category.MISSING), 0)
    for category, refused_at in newest:
        counts[category] += refused_at >= since
    return counts


def storage_fault_counts(since: datetime) -> dict[str, int]:
    """Return how often the object store failed from `since` on, by what was being done."""
    rows = storage_faults_since(since).order_by("operation").values_list("operation")
    return dict.fromkeys(StorageOperation.values, 0) | dict(rows.annotate(count=Count("pk")))


def storage_faults_since(at: datetime) -> QuerySet[StorageFault]:
    """Return the times that the object store failed from `at` on, newest first."""
    return StorageFault.objects.filter(at__gte=at).order_by("-pk")
