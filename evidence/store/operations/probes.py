"""Probe results on their way down: what is told of a lane's simulator, and told once."""

from collections.abc import Sequence

from evalhub.protocol.plan import SimulatorReference
from evalhub.protocol.segments import Category
from evidence.store.operations.contents import Unfit
from evidence.store.operations.reading import AcceptedItem, RefusedItem, refused
from lanes.fidelity import operations as fidelity_operations
from lanes.fidelity import queries as fidelity_queries
from lanes.fidelity.operations import Prober
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt

# Whoever concludes the plan reads them all.
_MOST_PROBES = 5_000


def without_misfits(
    attempt: Attempt, items: Sequence[AcceptedItem], *, into: list[RefusedItem]
) -> list[AcceptedItem]:
    """Return items without the probes that cannot count; those are refused, `into` a list.

    A probe is run once in an attempt, else a lane could repeat those that match until they prevail.
    """
    if not any(item.content.probe_lines for item in items):
        return list(items)
    told = fidelity_queries.probes_of_attempt(attempt.key)
    has_simulator = _simulator(attempt) is not None
    fresh = []
    for item in items:
        probes = {line.probe for line in item.content.probe_lines}
        unfit = _misfit(attempt, probes, told=told, has_simulator=has_simulator)
        if unfit is None:
            told |= probes
            fresh.append(item)
        else:
            into.append(refused(item, unfit))
    return fresh


def store_probes(attempt: Attempt, accepted: Sequence[AcceptedItem]) -> None:
    """Hand the probe results of accepted items down to `lanes.fidelity`."""
    plan = attempt.lane.plan
    lines = [line for item in accepted for line in item.content.probe_lines]
    simulator = _simulator(attempt) if lines else None
    # What a foreign plan found out says nothing of the simulators of this project.
    if simulator is None or plan.is_foreign:
        return
    prober = Prober(
        project=plan.project,
        suite_name=plan.suite_name,
        plan=plan.digest,
        lane=attempt.lane.name,
        attempt=attempt.key,
        simulator=simulator.name,
        build=simulator.build,
    )
    fidelity_operations.note_probes(prober, lines)


def _misfit(
    attempt: Attempt, probes: set[str], *, told: set[str], has_simulator: bool
) -> Unfit | None:
    if not probes:
        return None
    if not has_simulator:
        detail = f"The plan gives lane {attempt.lane.name} no simulator that probes could tell of."
        return Unfit(Category.UNEXPECTED, "no_simulator", detail)
    repeated = probes & told
    if repeated:
        detail = f"Probe {min(repeated)} was told of by an earlier part; each is run once."
        return Unfit(Category.DUPLICATE, "repeated_probe", detail)
    if len(probes) + len(told) > _MOST_PROBES:
        detail = f"The attempt has {len(told)} probes already; at most {_MOST_PROBES} are taken."
        return Unfit(Category.MALFORMED, "too_many_probes", detail)
    return None


def _simulator(attempt: Attempt) -> SimulatorReference | None:
    lane = attempt.lane
    return plans_queries.plan_document(lane.plan).lane(lane.name).environment.simulator
