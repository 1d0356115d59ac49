"""What a plan's lanes were to bring, and what of it is missing."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from evalhub.protocol.coverage import RunEvidence, missing_lane_evidence, missing_run_evidence
from evalhub.protocol.paths import LANE_KINDS, ItemKind
from evalhub.protocol.plan import PlannedLane, RunKey
from evalhub.protocol.records import AGENT_FAULTS, MEASURED
from evidence.store.models import Item, JudgeCall, Refusal, Run
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Lane, Plan


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
