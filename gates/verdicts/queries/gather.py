"""The fan-in: is the evidence complete and sound? Everything that is not is named."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evalhub.protocol.paths import ItemKind, ItemPath, PathError, format_path, parse_path
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.plan import RunKey
from evalhub.protocol.policy import Policy
from evalhub.protocol.segments import Category
from evidence.store import queries as store
from evidence.store.models import Item, Refusal
from gates.verdicts.queries.evidence import Evidence
from gates.verdicts.queries.findings import Code, Effect, Finding, FindingClass, finding
from gates.verdicts.queries.isolation import ClaimResult
from gates.verdicts.queries.rubrics import limits_of
from gates.verdicts.queries.scoring import RESULT_STAGE
from gates.verdicts.queries.sides import FirstResults, required_lanes
from lanes.budget.queries import PlanSpend
from lanes.plans.models import Attempt, AttemptState, Plan

_UNREADABLE = (Category.MALFORMED, Category.INCOMPATIBLE)
# What a run's verdict can rest on; the rest of a run is for people.
_COUNTED_KINDS = (ItemKind.RESULT, ItemKind.JUDGE, ItemKind.TRANSCRIPT)
_REFUSAL_WORDS = {
    Code.DUPLICATE: "a second, different item came for a path",
    Code.UNEXPECTED: "evidence came that the lane was not to send",
    Code.STALE: "evidence came too late, or for another commit",
    Code.MALFORMED: "evidence could not be read",
    Code.INCOMPATIBLE: "evidence has a schema that this server does not know",
}


class LaneCoverage(NamedTuple):
    """What one lane was to bring and what it brought; run keys count over all its attempts."""

    lane: str
    kind: str
    required: bool
    state: str
    planned: int
    measured: int
    unmeasured: int
    missing: int
    refused: int

    def as_json(self) -> dict[str, object]:
        return self._asdict()


def coverage(
    plan: Plan,
    document: PlanDocument,
    evidence: Evidence,
    *,
    newest: dict[str, Attempt | None],
    measured: Iterable[str],
) -> list[LaneCoverage]:
    """Return how far each lane of a plan came, in the plan's order."""
    refused = Counter(
        Refusal.objects.filter(plan=plan).values_list("attempt__lane__name", flat=True)
    )
    counted = frozenset(measured)
    rows = []
    for lane in document.lanes:
        outcomes = [_outcomes(evidence, plan, key) for key in lane.run_keys]
        good = sum(bool(counted & seen) for seen in outcomes)
        empty = sum(not seen for seen in outcomes)
        attempt = newest.get(lane.name)
        rows.append(
            LaneCoverage(
                lane=lane.name,
                kind=lane.kind,
                required=lane.is_required,
                state="NOT_STARTED" if attempt is None else str(attempt.state),
                planned=len(outcomes),
                measured=good,
                unmeasured=len(outcomes) - good - empty,
                missing=empty,
                refused=refused[lane.name],
            )
        )
    return rows


def coverage_findings(
    plan: Plan, document: PlanDocument, evidence: Evidence, *, lanes: Sequence[LaneCoverage]
) -> list[Finding]:
    """Return what required lanes owe: run keys, expected evidence, measurements, seals."""
    required = [lane for lane in lanes if lane.required]
    owed = _missing_subjects(plan)
    quarantined = _only_in_quarantine(plan, document, evidence)
    return [
        *finding(
            Code.MISSING,
            Effect.FAILURE,
            [*owed, *quarantined],
            "Run keys without an accepted result, or expected evidence that did not come.",
        ),
        *finding(
            Code.UNMEASURED_LANE,
            Effect.FAILURE,
            [lane.lane for lane in required if lane.measured == 0],
            "Required lanes that measured nothing.",
        ),
        *finding(
            Code.UNSEALED_LANE,
            Effect.FAILURE,
            [
                lane.lane
                for lane in required
                if lane.state not in ("NOT_STARTED", AttemptState.SEALED)
            ],
            "Required lanes that never said that they were done.",
        ),
    ]


def refusal_findings(plan: Plan) -> list[Finding]:
    """Return each category of quarantine that holds something, and segments that nobody can read.

    A refusal alone changes no conclusion, as refused evidence never counts: what is required and
    lies only there is `missing`. What an unreadable segment held, nobody can say.
    """
    subjects: dict[Code, list[str]] = defaultdict(list)
    unreadable = []
    rows = Refusal.objects.filter(plan=plan).values_list(
        "category", "attempt__lane__name", "path", "attempt__lane__is_required"
    )
    for category, lane, path, is_required in rows:
        subjects[Code(category)].append(f"{lane}: {path or 'a whole segment'}")
        if not path and is_required and category in _UNREADABLE:
            unreadable.append(lane)
    found = []
    for code, words in _REFUSAL_WORDS.items():
        found += finding(code, Effect.NOTE, subjects[code], f"In quarantine: {words}.")
    return found + finding(
        Code.UNREADABLE_SEGMENT,
        Effect.ACTION_REQUIRED,
        unreadable,
        "Lanes that sent a segment of which nobody can say what it held.",
    )


def judge_findings(plan: Plan, document: PlanDocument, evidence: Evidence) -> list[Finding]:
    """Return the stages that judged with another fingerprint than the plan names."""
    planned = {(s.rubric, s.stage, s.fingerprint) for s in document.stages}
    own = _own_runs(plan, document, evidence)
    changed = {
        f"{rubric}/{stage}"
        for rubric in document.rubrics
        for run_id, stages in evidence.values.get(rubric, {}).items()
        if run_id in own
        for stage, fingerprint in stages
        if stage != RESULT_STAGE and (rubric, stage, fingerprint) not in planned
    }
    return finding(
        Code.JUDGE_CHANGED,
        Effect.ACTION_REQUIRED,
        changed,
        "Stages that judged with another model, prompt or parameters than the plan names.",
    )


def environment_findings(
    document: PlanDocument, reported: Iterable[store.ReportedEnvironment]
) -> list[Finding]:
    """Return the required lanes that say themselves that they ran elsewhere than the plan has it.

    What is compared with what is decided by the plan, so its words must be those of the lanes.
    """
    lanes = {lane.name: lane for lane in required_lanes(document)}
    subjects = []
    for row in reported:
        planned, told = lanes.get(row.lane), row.environment
        if planned is None:
            continue
        if told.tier != planned.environment.tier:
            tier = planned.environment.tier
            subjects.append(f"{row.lane}: the tier was {told.tier}, planned was {tier}")
        if told.memory not in (None, planned.memory):
            words = {True: "on", False: "off"}
            memory, wanted = words[bool(told.memory)], words[planned.memory]
            subjects.append(f"{row.lane}: memory was {memory}, planned was {wanted}")
    return finding(
        Code.ENVIRONMENT_DIFFERS,
        Effect.ACTION_REQUIRED,
        subjects,
        "Lanes that ran in another environment than the plan says.",
    )


def scale_findings(
    plan: Plan, document: PlanDocument, policy: Policy, evidence: Evidence
) -> list[Finding]:
    """Return the runs whose score lies outside their rubric's scale; such a score never counts."""
    own = _own_runs(plan, document, evidence)
    outside = []
    for name in document.rubrics:
        limits = limits_of(policy.rubrics[name])
        if limits is None:
            continue
        outside += [
            f"{own[run_id]} {name}"
            for run_id, stages in evidence.values.get(name, {}).items()
            if run_id in own
            and any(v is not None and not limits.low <= v <= limits.high for v in stages.values())
        ]
    return finding(
        Code.OUT_OF_SCALE,
        Effect.ACTION_REQUIRED,
        outside,
        "Scores outside their rubric's scale; they were not counted.",
    )


def unmeasured_findings(arms: Sequence[FirstResults], *, most: float) -> list[Finding]:
    """Return too many runs that measured nothing at first, and those that were replaced."""
    too_many = [
        str(key)
        for arm in arms
        if arm.planned and len(arm.unmeasured) / arm.planned > most
        for key in arm.unmeasured
    ]
    return [
        *finding(
            Code.UNMEASURED,
            Effect.ACTION_REQUIRED,
            too_many,
            f"More than {most:.0%} of an arm's run keys measured nothing when they first ran;"
            " running them again does not change that.",
        ),
        *finding(
            Code.REPLACED,
            Effect.NOTE,
            [str(key) for arm in arms for key in arm.replaced],
            "Run keys that measured nothing at first and were run again.",
        ),
    ]


def isolation_findings(results: Sequence[ClaimResult]) -> list[Finding]:
    """Return which claims of the policy are violated, and which nobody has proven."""
    words = {
        state: [
            f"{result.resource}: {offence} {offence.detail}"
            for result in results
            if result.state == state
            for offence in result.offences
        ]
        for state in ("violated", "unproven")
    }
    return [
        *finding(
            Code.ISOLATION_VIOLATED,
            Effect.FAILURE,
            words["violated"],
            "Lanes shared what the policy says that they must not.",
            class_=FindingClass.ISOLATION,
        ),
        *finding(
            Code.ISOLATION_UNPROVEN,
            Effect.ACTION_REQUIRED,
            words["unproven"],
            "Lanes did not show that they shared nothing; claim it, or set it to not_claimed.",
            class_=FindingClass.ISOLATION,
        ),
    ]


def spend_findings(spend: PlanSpend) -> list[Finding]:
    """Return what is wrong with the plan's account; it is shown and decides nothing."""
    return [
        *finding(
            Code.SPEND_CONFLICT,
            Effect.NOTE,
            [f"{lane.lane}: {lane.conflicts} calls" for lane in spend.by_lane if lane.conflicts],
            "Judge calls that were claimed twice, at different costs.",
            class_=FindingClass.SPEND,
        ),
        *finding(
            Code.UNKNOWN_COST,
            Effect.NOTE,
            [
                f"{lane.lane}: {lane.unknown_calls} calls"
                for lane in spend.by_lane
                if lane.unknown_calls
            ],
            "Judge calls whose cost nobody knows: the plan spent at least what is shown.",
            class_=FindingClass.SPEND,
        ),
    ]


def _outcomes(evidence: Evidence, plan: Plan, key: RunKey) -> set[str]:
    return {run.outcome for run in evidence.of(plan.pk, key) if run.outcome is not None}


def _own_runs(plan: Plan, document: PlanDocument, evidence: Evidence) -> dict[int, RunKey]:
    """Return the runs of a plan's required lanes by id."""
    return {
        run.run_id: key
        for lane in required_lanes(document)
        for key in lane.run_keys
        for run in evidence.of(plan.pk, key)
    }


def _missing_subjects(plan: Plan) -> list[str]:
    """Name a run key where its result is missing, else each path that is."""
    subjects = []
    for lane in store.missing_evidence(plan):
        subjects += [f"{lane.lane}: {path}" for path in lane.lane_missing]
        for key, paths in lane.missing.items():
            result = format_path(ItemPath(ItemKind.RESULT, key))
            subjects += [str(key)] if result in paths else paths
    return subjects


class _Lost(NamedTuple):
    """A refused path of a planned run, and the attempt that sent it."""

    lane: str
    path: str
    attempt_number: int
    key: RunKey


def _only_in_quarantine(plan: Plan, document: PlanDocument, evidence: Evidence) -> list[str]:
    """Return the paths of planned runs that came, were refused, and lie nowhere accepted.

    A later attempt that brought a result for the run key has made up for it.
    """
    owned = {lane.name: set(lane.run_keys) for lane in required_lanes(document)}
    rows = Refusal.objects.filter(plan=plan, attempt__lane__is_required=True).exclude(
        category__in=[Category.UNEXPECTED, Category.DUPLICATE]
    )
    refused = [
        _Lost(lane, path, number, key)
        for lane, path, number in rows.values_list("attempt__lane__name", "path", "attempt__number")
        for key in [_counted_run(path)]
        if key is not None and key in owned.get(lane, ())
    ]
    if not refused:
        return []
    accepted = set(
        Item.objects.filter(attempt__lane__plan=plan, kind__in=_COUNTED_KINDS).values_list(
            "attempt__lane__name", "path"
        )
    )
    return [
        str(one.key) if parse_path(one.path).kind is ItemKind.RESULT else one.path
        for one in refused
        if (one.lane, one.path) not in accepted
        and not any(
            run.outcome is not None and run.attempt_number > one.attempt_number
            for run in evidence.of(plan.pk, one.key)
        )
    ]


def _counted_run(path: str) -> RunKey | None:
    try:
        item = parse_path(path)
    except PathError:
        return None
    return item.run if item.kind in _COUNTED_KINDS else None
