"""Did lanes share what they should not? Proven, violated or unproven, by what each lane reported.

The facts are claims of the lanes about themselves (keyed fingerprints); a lane that reports nothing
has proven nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple, get_args

from evalhub.protocol.plan import PlannedLane
from evalhub.protocol.policy import Claim, Isolation
from evalhub.protocol.records import LaneEnvironment


class Report(NamedTuple):
    """What one attempt of a lane said about its environment, and when it ran."""

    lane: str
    attempt: str
    opened_at: datetime
    ended_at: datetime
    environment: LaneEnvironment


class Offence(NamedTuple):
    """Two lanes (or two attempts of one) that share something, or one that proves nothing."""

    first: str
    second: str | None
    detail: str

    def __str__(self) -> str:
        return self.first if self.second is None else f"{self.first} and {self.second}"


class ClaimResult(NamedTuple):
    """How one claim of the policy stands."""

    resource: str
    claim: str
    state: str
    """`proven`, `violated`, `unproven` or `not_claimed`."""
    offences: tuple[Offence, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "resource": self.resource,
            "claim": self.claim,
            "state": self.state,
            "offences": [
                {"lanes": [n for n in (o.first, o.second) if n is not None], "detail": o.detail}
                for o in self.offences
            ],
        }


class Case(NamedTuple):
    """All that a claim is judged by. `owing` names required attempts that delivered results."""

    lanes: dict[str, PlannedLane]
    reports: Sequence[Report]
    owing: frozenset[tuple[str, str]]


class Held(NamedTuple):
    """One thing that an attempt held: a fingerprint, and whether it said that others hold it too."""

    report: Report
    value: str
    declared_shared: bool = False


class Ruling(NamedTuple):
    violations: list[Offence]
    doubts: list[Offence]


def isolation_results(case: Case, *, claims: Isolation) -> list[ClaimResult]:
    """Return how every claim of the policy stands, in the policy's order."""
    return [_result(resource, getattr(claims, resource), case=case) for resource in RESOURCES]


def _result(resource: str, claim: Claim, *, case: Case) -> ClaimResult:
    if claim == "not_claimed":
        return ClaimResult(resource, claim, "not_claimed")
    violations, doubts = RESOURCES[resource](case, claim)
    doubts = [*_unreported(case), *doubts]
    if violations:
        return ClaimResult(resource, claim, "violated", _sorted(violations))
    if doubts:
        return ClaimResult(resource, claim, "unproven", _sorted(doubts))
    return ClaimResult(resource, claim, "proven")


def _machine(case: Case, claim: Claim) -> Ruling:
    held, doubts = [], []
    for report in case.reports:
        machine = report.environment.machine
        if machine is None or machine.boot_id is None:
            doubts += _doubt(case, report, "did not report its machine")
        else:
            held.append(Held(report, machine.boot_id))
    if claim == "equal":
        return Ruling(_unequal(held, "machine"), doubts)
    if claim == "shared_declared":
        # The plan has no place to declare a machine; that the policy allows it is the declaration.
        return Ruling([], doubts)
    violations = []
    for first, second in _lane_pairs(held):
        if not _overlap(first.report, second.report):
            continue
        names = (first.report.lane, second.report.lane)
        if _in_containers_of_their_own(first.report, second.report):
            doubts.append(Offence(*names, "ran on one machine at one time, in two containers"))
        else:
            violations.append(Offence(*names, "ran on one machine at one time"))
    return Ruling(violations, doubts)


def _world(case: Case, claim: Claim) -> Ruling:
    held, doubts, foreign = [], [], []
    for report in case.reports:
        simulators = report.environment.simulators
        expected = case.lanes[report.lane].environment.simulator is not None
        if expected and not simulators:
            doubts += _doubt(case, report, "did not report its simulator")
        for simulator in simulators:
            names = [v for v in (simulator.instance_id, *simulator.world_ids) if v is not None]
            if not names:
                doubts += _doubt(case, report, f"gave {simulator.name} no instance or world id")
            held += [Held(report, name) for name in names]
            if simulator.foreign_requests is None:
                doubts += _doubt(
                    case, report, f"did not count foreign requests to {simulator.name}"
                )
            elif simulator.foreign_requests:
                text = f"its {simulator.name} had {simulator.foreign_requests} requests of others"
                foreign.append(Offence(report.lane, None, text))
    shared = _ruled(held, claim, what="world", across_attempts=True)
    return Ruling([*shared, *(foreign if claim == "exclusive" else [])], doubts)


def _mcp_session(case: Case, claim: Claim) -> Ruling:
    held, doubts = [], []
    for report in case.reports:
        if "mcp" not in report.environment.model_fields_set:
            doubts += _doubt(case, report, "did not say which MCP sessions it had")
        for session in report.environment.mcp:
            fingerprints = _texts(session.get("session_fps"))
            if session.get("era") == "legacy" and not fingerprints:
                doubts += _doubt(case, report, "has a legacy MCP session without an id")
            held += [Held(report, fingerprint) for fingerprint in fingerprints]
    return Ruling(_ruled(held, claim, what="MCP session", across_attempts=True), doubts)


def _credential(case: Case, claim: Claim) -> Ruling:
    held, doubts = [], []
    for report in case.reports:
        if "credentials" not in report.environment.model_fields_set:
            doubts += _doubt(case, report, "did not say which credentials it had")
        for credential in report.environment.credentials:
            fingerprints = _texts([credential.get("fp")])
            if not fingerprints:
                doubts += _doubt(case, report, "has a credential without a fingerprint")
            shared = credential.get("scope") not in (None, "lane")
            held += [Held(report, fingerprint, shared) for fingerprint in fingerprints]
    return Ruling(_ruled(held, claim, what="credential"), doubts)


def _pool(case: Case, claim: Claim) -> Ruling:
    held, doubts = [], []
    for report in case.reports:
        planned = case.lanes[report.lane].pool
        if report.environment.pool is not None:
            held.append(Held(report, report.environment.pool, planned is not None))
        elif planned is not None:
            doubts += _doubt(case, report, f"did not report the pool {planned}")
    return Ruling(_ruled(held, claim, what="judge pool"), doubts)


def _seed(case: Case, claim: Claim) -> Ruling:
    violations, doubts = [], []
    by_simulator: dict[str, list[Held]] = defaultdict(list)
    for report in case.reports:
        planned = case.lanes[report.lane].environment.simulator
        if planned is not None and not report.environment.simulators:
            doubts += _doubt(case, report, "did not report its simulator")
        for simulator in report.environment.simulators:
            if simulator.seed_digest is None:
                doubts += _doubt(case, report, f"did not report the seed of {simulator.name}")
                continue
            by_simulator[simulator.name].append(Held(report, simulator.seed_digest))
            wanted = planned.seed_digest if planned and planned.name == simulator.name else None
            if wanted not in (None, simulator.seed_digest):
                text = f"its {simulator.name} began from another seed than the plan names"
                violations.append(Offence(report.lane, None, text))
    for name, held in by_simulator.items():
        violations += _ruled(held, claim, what=f"seed of {name}")
    return Ruling(violations, doubts)


def _canary(case: Case, claim: Claim) -> Ruling:
    planted, doubts = [], []
    seen: list[Held] = []
    for report in case.reports:
        canary = report.environment.canary or {}
        nonces = _texts([canary.get("planted")])
        if not nonces or not isinstance(canary.get("seen"), list):
            doubts += _doubt(case, report, "did not plant a canary and look for others")
        planted += [Held(report, nonce) for nonce in nonces]
        seen += [Held(report, nonce) for nonce in _texts(canary.get("seen"))]
    violations = _ruled(planted, claim, what="canary")
    owners = {held.value: held.report.lane for held in planted}
    own = {(held.report.lane, held.value) for held in planted}
    for held in seen:
        if (held.report.lane, held.value) not in own and claim == "exclusive":
            owner = owners.get(held.value)
            text = "saw the other's canary" if owner else "saw a canary that no lane planted"
            violations.append(Offence(held.report.lane, owner, text))
    return Ruling(violations, doubts)


RESOURCES: dict[str, Callable[[Case, Claim], Ruling]] = {
    "machine": _machine,
    "world": _world,
    "mcp_session": _mcp_session,
    "credential": _credential,
    "pool": _pool,
    "seed": _seed,
    "canary": _canary,
}


def _unreported(case: Case) -> list[Offence]:
    reported = {(report.lane, report.attempt) for report in case.reports}
    return [
        Offence(lane, None, "sent no environment record with its results")
        for lane, attempt in sorted(case.owing)
        if (lane, attempt) not in reported
    ]


def _doubt(case: Case, report: Report, detail: str) -> list[Offence]:
    """Return the doubt, if the plan's verdict rests on this lane."""
    required = case.lanes[report.lane].is_required
    return [Offence(report.lane, None, detail)] if required else []


def _ruled(
    held: Sequence[Held], claim: Claim, *, what: str, across_attempts: bool = False
) -> list[Offence]:
    if claim == "equal":
        return _unequal(held, what)
    offences = []
    for first, second in _lane_pairs(held):
        if claim == "exclusive":
            offences.append(_shared(first, second, f"share a {what}"))
        elif not (first.declared_shared and second.declared_shared):
            offences.append(_shared(first, second, f"share a {what} that is not declared shared"))
    if across_attempts and claim == "exclusive":
        offences += [
            Offence(first.report.lane, None, f"two of its attempts had one {what}")
            for first, second in _equal_pairs(held)
            if first.report.lane == second.report.lane
            and first.report.attempt != second.report.attempt
        ]
    return offences


def _shared(first: Held, second: Held, detail: str) -> Offence:
    return Offence(first.report.lane, second.report.lane, detail)


def _unequal(held: Sequence[Held], what: str) -> list[Offence]:
    """Return the lanes that differ from the one that comes first by name."""
    if not held:
        return []
    ordered = sorted(held, key=lambda one: (one.report.lane, one.report.attempt, one.value))
    first = ordered[0]
    return [
        Offence(first.report.lane, other.report.lane, f"differ in their {what}")
        for other in ordered[1:]
        if other.value != first.value
    ]


def _equal_pairs(held: Iterable[Held]) -> Iterator[tuple[Held, Held]]:
    by_value: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        by_value[one.value].append(one)
    for sharing in by_value.values():
        sharing.sort(key=lambda one: (one.report.lane, one.report.attempt))
        yield from combinations(sharing, 2)


def _lane_pairs(held: Iterable[Held]) -> Iterator[tuple[Held, Held]]:
    return (pair for pair in _equal_pairs(held) if pair[0].report.lane != pair[1].report.lane)


def _overlap(first: Report, second: Report) -> bool:
    return first.opened_at < second.ended_at and second.opened_at < first.ended_at


def _in_containers_of_their_own(first: Report, second: Report) -> bool:
    containers = [
        r.environment.machine and r.environment.machine.container for r in (first, second)
    ]
    return None not in containers and containers[0] != containers[1]


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _sorted(offences: Iterable[Offence]) -> tuple[Offence, ...]:
    unique = set(offences)
    return tuple(sorted(unique, key=lambda o: (o.first, o.second or "", o.detail)))


if set(RESOURCES) != set(Isolation.model_fields) or "not_claimed" not in get_args(Claim):
    raise RuntimeError("The policy claims isolation of resources that this module does not judge.")
