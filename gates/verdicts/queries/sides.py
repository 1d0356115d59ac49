"""One side of a comparison: an arm, with the runs of all plans and attempts that count for it."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from evalhub.protocol.plan import Arm, PlannedLane, RunKey
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.records import AGENT_FAULTS, MEASURED
from evalhub.stats.rubric import RunStatus
from gates.verdicts.queries.evidence import Evidence, SeenRun
from lanes.plans.models import Plan

ADVISORY_TAG = "advisory"


class Member(NamedTuple):
    """A plan whose runs count for a side, and the arm's name in it."""

    plan: Plan
    document: PlanDocument
    arm: str


class Side(NamedTuple):
    """The plans whose runs are pooled; the first is the one that the side is about."""

    members: tuple[Member, ...]

    @property
    def plan_ids(self) -> list[int]:
        return [member.plan.pk for member in self.members]


class ArmRun(NamedTuple):
    """One run as the statistics see it. Without a `run_id` nothing came back for its key."""

    scenario: str
    digest: str
    epoch: int
    run_id: int | None
    status: RunStatus
    batch: str


class Environment(NamedTuple):
    """What must be equal for two arms to be comparable, beside subject, model and condition."""

    tier: str
    simulator: str | None
    build: str | None


class FirstResults(NamedTuple):
    """How the run keys of an arm first came back, so that repeating a run hides nothing."""

    planned: int
    unmeasured: tuple[RunKey, ...]
    """Run keys whose first result measured nothing."""
    replaced: tuple[RunKey, ...]
    """Those of them that a later attempt measured."""


def same_arm(first: Arm, second: Arm) -> bool:
    """Say whether two arms run the same subject on the same model under the same condition."""
    return (first.subject, first.model, first.condition) == (
        second.subject,
        second.model,
        second.condition,
    )


def required_lanes(document: PlanDocument) -> list[PlannedLane]:
    return [lane for lane in document.lanes if lane.is_required]


def gating_keys(document: PlanDocument, arm: str) -> list[RunKey]:
    """Return the run keys that count for the gate: required lanes, scenarios not advisory."""
    advisory = advisory_scenarios(document)
    return sorted(
        key
        for lane in required_lanes(document)
        for key in lane.run_keys
        if key.arm == arm and key.scenario not in advisory
    )


def advisory_keys(document: PlanDocument, arm: str) -> list[RunKey]:
    """Return the run keys that are only shown: advisory lanes, and scenarios tagged advisory."""
    advisory = advisory_scenarios(document)
    return sorted(
        key
        for lane in document.lanes
        for key in lane.run_keys
        if key.arm == arm
        and (lane.kind == "advisory" or (lane.is_required and key.scenario in advisory))
    )


def advisory_scenarios(document: PlanDocument) -> set[str]:
    return {s.id for s in document.scenarios if ADVISORY_TAG in s.tags}


def environments(document: PlanDocument, arm: str) -> frozenset[Environment]:
    """Return the environments of the required lanes that run an arm; of all lanes, if none is."""
    running = [lane for lane in document.lanes if any(key.arm == arm for key in lane.run_keys)]
    found = set()
    for lane in [lane for lane in running if lane.is_required] or running:
        simulator = lane.environment.simulator
        found.add(
            Environment(
                lane.environment.tier,
                None if simulator is None else simulator.name,
                None if simulator is None else simulator.build,
            )
        )
    return frozenset(found)


def measured_outcomes(count_against_agent: Iterable[str]) -> frozenset[str]:
    """Return the outcomes that a policy counts as measured."""
    return MEASURED | (AGENT_FAULTS & set(count_against_agent))


def arm_runs(
    side: Side, evidence: Evidence, *, measured: Collection[str], advisory: bool = False
) -> list[ArmRun]:
    """Return the runs that count for a side, in the order of plan, scenario and epoch.

    All measured runs of a run key count, whatever attempt they came from. A first result that
    measured nothing stays in as a missing run, also when a later attempt replaced it. A run key
    without any result is a missing run of the side's own plan; of a pooled plan it is nothing.
    """
    rows: list[ArmRun] = []
    for index, member in enumerate(side.members):
        digests = {scenario.id: scenario.digest for scenario in member.document.scenarios}
        keys = (advisory_keys if advisory else gating_keys)(member.document, member.arm)
        for key in keys:
            seen = [run for run in evidence.of(member.plan.pk, key) if run.outcome is not None]
            rows += [
                ArmRun(key.scenario, digests[key.scenario], key.epoch, *counted, member.plan.digest)
                for counted in _counted(seen, measured=measured, is_own=index == 0)
            ]
    return rows


def first_results(side: Side, evidence: Evidence, *, measured: Collection[str]) -> FirstResults:
    """Return how the side's own plan first came back."""
    own = side.members[0]
    keys = gating_keys(own.document, own.arm)
    unmeasured, replaced = [], []
    for key in keys:
        seen = [run for run in evidence.of(own.plan.pk, key) if run.outcome is not None]
        if seen and seen[0].outcome not in measured:
            unmeasured.append(key)
            if any(run.outcome in measured for run in seen[1:]):
                replaced.append(key)
    return FirstResults(len(keys), tuple(unmeasured), tuple(replaced))


class _Counted(NamedTuple):
    run_id: int | None
    status: RunStatus


def _counted(seen: list[SeenRun], *, measured: Collection[str], is_own: bool) -> list[_Counted]:
    counted = [
        _Counted(run.run_id, RunStatus.AGENT_ERROR if run.outcome in AGENT_FAULTS else RunStatus.OK)
        for run in seen
        if run.outcome in measured
    ]
    if seen and seen[0].outcome not in measured:
        counted.append(_Counted(seen[0].run_id, RunStatus.UNMEASURED))
    if not seen and is_own:
        counted.append(_Counted(None, RunStatus.UNMEASURED))
    return counted
