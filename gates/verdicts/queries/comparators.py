"""With what each arm is compared: a baseline lane of its own plan, an adopted plan, its clean twin."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from evalhub.protocol.plan import Arm
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.policy import Policy
from evalhub.stats.reasons import Reason
from gates.verdicts.models import BaselineKind
from gates.verdicts.queries import baselines
from gates.verdicts.queries.sides import (
    Member,
    Side,
    advisory_keys,
    environments,
    gating_keys,
    same_arm,
)
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan


class Comparison(StrEnum):
    """What an arm is compared with."""

    CONCURRENT = "concurrent"
    HISTORY = "history"
    RELEASE = "release"
    FAULT = "fault"


class Comparator(NamedTuple):
    """One comparison to make. Without a baseline side `gap` says why."""

    comparison: Comparison
    candidate: Side
    baseline: Side | None
    gap: Reason | None = None


class Adopted(NamedTuple):
    """The adopted plans that a plan is compared with. `release_is_set` even if it is not here."""

    rolling: Plan | None
    release: Plan | None
    release_is_set: bool


def candidate_arms(document: PlanDocument) -> list[Arm]:
    """Return the arms that are judged: not a baseline, with run keys that count for the gate."""
    return [a for a in document.arms if not a.is_baseline and gating_keys(document, a.name)]


def shown_arms(document: PlanDocument) -> list[Arm]:
    """Return the arms that only advisory lanes run: compared and shown, never judged."""
    return [
        arm
        for arm in document.arms
        if not arm.is_baseline
        and not gating_keys(document, arm.name)
        and advisory_keys(document, arm.name)
    ]


def adopted_for(
    plan: Plan, document: PlanDocument, policy: Policy, *, evidence_digest: str
) -> Adopted:
    """Return the adopted plans to compare with: those first chosen, unless evidence came since.

    None for a foreign plan: what it was compared with stayed where it came from.
    """
    if plan.is_foreign:
        return Adopted(None, None, release_is_set=False)
    rolling = baselines.chosen_baseline(
        plan, BaselineKind.ROLLING, evidence_digest=evidence_digest
    ) or _best(plan, document, BaselineKind.ROLLING)
    pinned = policy.baseline.release
    if pinned is not None:
        release = (
            Plan.objects.filter(
                project_id=plan.project_id, suite_name=plan.suite_name, digest=pinned
            )
            .defer("document")
            .first()
        )
    else:
        release = baselines.chosen_baseline(
            plan, BaselineKind.RELEASE, evidence_digest=evidence_digest
        ) or _best(plan, document, BaselineKind.RELEASE)
    if release is not None and release.pk == plan.pk:
        # The release itself has nothing pinned before it.
        return Adopted(rolling, None, release_is_set=False)
    return Adopted(rolling, release, release_is_set=pinned is not None or release is not None)


def comparators(
    plan: Plan, document: PlanDocument, arm: Arm, *, adopted: Adopted
) -> list[Comparator]:
    """Return every comparison of one arm. The first is the one that always gates."""
    found = [_primary(plan, document, arm, adopted=adopted)]
    if adopted.release_is_set:
        found.append(_adopted(Comparison.RELEASE, plan, document, arm, adopted.release))
    twin = _clean_twin(document, arm)
    if twin is not None:
        found.append(_within(Comparison.FAULT, plan, document, arm, twin))
    return found


def side_of(plan: Plan, document: PlanDocument, arm: Arm, *, pool: Sequence[Plan]) -> Side:
    """Return an arm with the runs of comparable plans of the same commit."""
    wanted = environments(document, arm.name)
    members = [Member(plan, document, arm.name)]
    for other in pool:
        their_document = plan_queries.plan_document(other)
        members += [
            Member(other, their_document, theirs.name)
            for theirs in their_document.arms
            if same_arm(arm, theirs)
            and (arm.is_baseline, arm.sha) == (theirs.is_baseline, theirs.sha)
            and environments(their_document, theirs.name) == wanted
        ]
    return Side(tuple(members))


def _primary(plan: Plan, document: PlanDocument, arm: Arm, *, adopted: Adopted) -> Comparator:
    run_by_baseline_lanes = {
        key.arm for lane in document.lanes if lane.kind == "baseline" for key in lane.run_keys
    }
    for other in document.arms:
        if other.is_baseline and other.name in run_by_baseline_lanes and same_arm(arm, other):
            return _within(Comparison.CONCURRENT, plan, document, arm, other)
    return _adopted(Comparison.HISTORY, plan, document, arm, adopted.rolling)


def _within(
    comparison: Comparison, plan: Plan, document: PlanDocument, arm: Arm, other: Arm
) -> Comparator:
    pool = baselines.pooled_plans(plan)
    candidate = side_of(plan, document, arm, pool=pool)
    if environments(document, arm.name) != environments(document, other.name):
        return Comparator(comparison, candidate, None, Reason.NOT_COMPARABLE)
    return Comparator(comparison, candidate, side_of(plan, document, other, pool=pool))


def _adopted(
    comparison: Comparison, plan: Plan, document: PlanDocument, arm: Arm, baseline: Plan | None
) -> Comparator:
    if baseline is None:
        candidate = side_of(plan, document, arm, pool=baselines.pooled_plans(plan))
        return Comparator(comparison, candidate, None, Reason.NO_BASELINE)
    same_commit = baseline.tested_sha == plan.tested_sha
    # Runs of one commit must not stand on both sides of a comparison.
    pool = baselines.pooled_plans(plan, excluding=[baseline])
    candidate = side_of(plan, document, arm, pool=pool)
    their_document = plan_queries.plan_document(baseline)
    theirs = matching_arm(their_document, arm)
    if theirs is None:
        return Comparator(comparison, candidate, None, Reason.NO_BASELINE)
    if environments(their_document, theirs.name) != environments(document, arm.name):
        return Comparator(comparison, candidate, None, Reason.NOT_COMPARABLE)
    their_pool = [] if same_commit else baselines.pooled_plans(baseline, excluding=[plan])
    return Comparator(
        comparison, candidate, side_of(baseline, their_document, theirs, pool=their_pool)
    )


def matching_arm(document: PlanDocument, arm: Arm) -> Arm | None:
    """Return the judged arm of a plan that is the same as `arm`, by name where several are."""
    matching = [other for other in candidate_arms(document) if same_arm(other, arm)]
    return next((other for other in matching if other.name == arm.name), next(iter(matching), None))


def _clean_twin(document: PlanDocument, arm: Arm) -> Arm | None:
    if arm.condition == "clean":
        return None
    for other in candidate_arms(document):
        if (other.condition, other.sha, other.subject, other.model) == (
            "clean",
            arm.sha,
            arm.subject,
            arm.model,
        ):
            return other
    return None


def _best(plan: Plan, document: PlanDocument, kind: BaselineKind) -> Plan | None:
    """Return the newest adopted plan that serves the most arms of this one."""
    best, most = None, -1
    for other in baselines.adopted_plans(plan.project, plan.suite_name, kind, excluding=plan):
        served = _served(document, other)
        if served > most:
            best, most = other, served
        if most == len(candidate_arms(document)):
            # Usually the newest; the documents of the others need not be read.
            break
    return best


def _served(document: PlanDocument, other: Plan) -> int:
    their_document = plan_queries.plan_document(other)
    return sum(
        theirs is not None
        and environments(their_document, theirs.name) == environments(document, arm.name)
        for arm in candidate_arms(document)
        for theirs in [matching_arm(their_document, arm)]
    )


def plans_of(found: Iterable[Comparator]) -> dict[int, Plan]:
    """Return every plan whose runs take part, by id."""
    return {
        member.plan.pk: member.plan
        for comparator in found
        for side in (comparator.candidate, comparator.baseline)
        if side is not None
        for member in side.members
    }
