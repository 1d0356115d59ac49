"""The whole evaluation of a plan: findings, verdicts, records. Reads only, outside any transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from evalhub.protocol.canonical import Digest
from evalhub.protocol.plan import Arm
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.policy import Policy
from evalhub.stats.reasons import Verdict
from evidence.store import queries as store
from gates.verdicts.models import BaselineKind
from gates.verdicts.queries import gather, repeats
from gates.verdicts.queries.comparators import (
    Adopted,
    Comparator,
    Comparison,
    adopted_for,
    candidate_arms,
    comparators,
    plans_of,
    shown_arms,
)
from gates.verdicts.queries.comparisons import Context, Judged, advisory, confirmed, judged
from gates.verdicts.queries.evidence import Evidence, evidence_of
from gates.verdicts.queries.findings import Code, Effect, Finding
from gates.verdicts.queries.isolation import Case, ClaimResult, Report, isolation_results
from gates.verdicts.queries.population import Base, population_findings
from gates.verdicts.queries.records import Draft, draft, evidence_digest, side_digest
from gates.verdicts.queries.removed import removed_findings
from gates.verdicts.queries.sides import (
    Member,
    Side,
    first_results,
    gating_keys,
    measured_outcomes,
)
from lanes.budget import queries as budget
from lanes.budget.queries import PlanSpend
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan

_TRIES = 3


class EvidenceMovedError(Exception):
    """The evidence changed each time that it was read; it is evaluated again later."""


class Choice(NamedTuple):
    """A baseline that this evaluation used and that its plan keeps."""

    kind: BaselineKind
    baseline: Plan


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Everything that a conclusion is made from. Nothing of it is stored yet."""

    plan: Plan
    """As it was when the evaluation began; `inputs_version` is the one that it saw."""
    policy: Policy
    findings: tuple[Finding, ...]
    isolation: tuple[ClaimResult, ...]
    coverage: tuple[gather.LaneCoverage, ...]
    drafts: tuple[Draft, ...]
    advisory: tuple[Judged, ...]
    attempts: tuple[Attempt, ...]
    spend: PlanSpend
    choices: tuple[Choice, ...]
    own_evidence: Digest
    """Digest of the plan's own evidence, without pooled plans."""
    evidence_digest: Digest
    """Digest of the candidate's side, pooled plans included."""

    @property
    def gating(self) -> list[Draft]:
        """The verdicts that take part in the conclusion."""
        return [draft for draft in self.drafts if draft.judged.gates]

    @property
    def is_sound(self) -> bool:
        """Whether the evidence is complete and sound, apart from what it is compared with."""
        # What differs from the base says nothing against the evidence itself, and else nothing new
        # could ever be adopted; isolation that nobody proved is for whoever adopts the plan.
        tolerated = {
            Code.SUITE_CHANGED,
            Code.ARMS_CHANGED,
            Code.JUDGE_REPLACED,
            Code.ISOLATION_UNPROVEN,
        }
        return all(f.effect is Effect.NOTE or f.code in tolerated for f in self.findings)

    @property
    def has_regression(self) -> bool:
        return any(draft.judged.verdict is Verdict.REGRESSION for draft in self.gating)


class _Loaded(NamedTuple):
    """What was read in one consistent go."""

    found: list[tuple[Arm, list[Comparator]]]
    shown: list[tuple[Arm, list[Comparator]]]
    """Arms that are compared without being judged."""
    evidence: Evidence
    own_evidence: Digest
    digests: dict[tuple[int, ...], Digest]
    adopted: Adopted


def evaluate(plan: Plan) -> Evaluation:
    """Return what the evidence of `plan` says now. Equal evidence gives equal records.

    Raises:
        EvidenceMovedError: if evidence arrived each time that it was being read, or if only a part
            of its rows is there.
    """
    plan = Plan.objects.select_related("project", "policy").get(pk=plan.pk)
    document = plan_queries.plan_document(plan)
    policy = plan_queries.policy_document(plan.policy)
    loaded = _loaded(plan, document, policy)
    context = Context(document, policy, loaded.evidence)
    verdicts = confirmed(
        list(
            chain.from_iterable(
                judged(arm.name, comparator, context)
                for arm, found in loaded.found
                for comparator in found
            )
        ),
        policy=policy,
    )
    attempts = plan_queries.attempts_of(plan)
    lanes = gather.coverage(
        plan,
        document,
        loaded.evidence,
        newest=plan_queries.newest_attempts(plan),
        measured=measured_outcomes(policy.count_against_agent),
    )
    reported = store.lane_environments(plan)
    isolation = _isolation(plan, document, policy, attempts, reported)
    spend = budget.spend_of_plan(plan.digest)
    findings = [
        *gather.coverage_findings(plan, document, loaded.evidence, lanes=lanes),
        *_evidence_findings(plan, context),
        *gather.environment_findings(document, reported),
        *population_findings(document, loaded.found, base=_base(plan, loaded.adopted)),
        *gather.isolation_findings(isolation),
        *gather.spend_findings(spend),
    ]
    return Evaluation(
        plan=plan,
        policy=policy,
        findings=tuple(findings),
        isolation=tuple(isolation),
        coverage=tuple(lanes),
        drafts=tuple(_draft(one, plan, digests=loaded.digests) for one in verdicts),
        advisory=tuple(_advisory([*loaded.found, *loaded.shown], context)),
        attempts=tuple(attempts),
        spend=spend,
        choices=tuple(_choices(loaded)),
        own_evidence=loaded.own_evidence,
        evidence_digest=_candidate_digest(loaded),
    )


def _evidence_findings(plan: Plan, context: Context) -> list[Finding]:
    document, policy, evidence = context
    measured = measured_outcomes(policy.count_against_agent)
    firsts = [
        first_results(Side((Member(plan, document, arm.name),)), evidence, measured=measured)
        for arm in document.arms
        if gating_keys(document, arm.name)
    ]
    return [
        *gather.refusal_findings(plan),
        *gather.judge_findings(plan, document, evidence),
        *gather.scale_findings(plan, document, policy, evidence),
        *gather.unmeasured_findings(firsts, most=policy.max_unmeasured),
        *repeats.remeasured_findings(plan, document, evidence, measured=measured),
        *repeats.unscored_findings(plan, document, policy, evidence),
        *removed_findings(plan),
    ]


def _loaded(plan: Plan, document: PlanDocument, policy: Policy) -> _Loaded:
    """Read scores and digests so that they speak of the same evidence."""
    for _ in range(_TRIES):
        own_evidence = evidence_digest([plan.pk])
        adopted = adopted_for(plan, document, policy, evidence_digest=own_evidence)
        found, shown = (
            [(arm, comparators(plan, document, arm, adopted=adopted)) for arm in arms]
            for arms in (candidate_arms(document), shown_arms(document))
        )
        involved = {plan.pk, *plans_of(chain.from_iterable(c for _, c in [*found, *shown]))}
        if store.are_being_rebuilt(involved):
            raise EvidenceMovedError(
                "Rows of the evidence are being made again: let `manage.py reindex` come to its end."
            )
        before = _versions(involved)
        evidence = evidence_of(involved)
        digests: dict[tuple[int, ...], Digest] = {(plan.pk,): evidence_digest([plan.pk])}
        for comparator in chain.from_iterable(c for _, c in found):
            side_digest(comparator.candidate, digests)
            side_digest(comparator.baseline, digests)
        if _versions(involved) == before and digests[plan.pk,] == own_evidence:
            return _Loaded(found, shown, evidence, own_evidence, digests, adopted)
    raise EvidenceMovedError(f"The evidence of {plan.digest} changed while it was being read.")


def _versions(plan_ids: Iterable[int]) -> dict[int, int]:
    rows = Plan.objects.filter(pk__in=sorted(plan_ids)).values_list("pk", "inputs_version")
    return dict(rows)


def _draft(one: Judged, plan: Plan, *, digests: dict[tuple[int, ...], Digest]) -> Draft:
    return draft(
        one,
        plan_digest=plan.digest,
        policy_digest=plan.policy.digest,
        sides=(
            side_digest(one.comparator.baseline, digests),
            side_digest(one.comparator.candidate, digests),
        ),
    )


def _candidate_digest(loaded: _Loaded) -> Digest:
    """Return the digest over every candidate arm's side; without an arm, of the plan alone."""
    plans = {
        plan_id
        for _, found in loaded.found
        for comparator in found[:1]
        for plan_id in comparator.candidate.plan_ids
    }
    key = tuple(sorted(plans))
    if not key:
        return loaded.own_evidence
    return loaded.digests[key] if key in loaded.digests else evidence_digest(key)


def _choices(loaded: _Loaded) -> list[Choice]:
    """Return what the plan keeps: not a baseline that serves none of its arms, as it waits for another."""
    rolling, release, _ = loaded.adopted
    return [
        Choice(kind, baseline)
        for kind, comparison, baseline in (
            (BaselineKind.ROLLING, Comparison.HISTORY, rolling),
            (BaselineKind.RELEASE, Comparison.RELEASE, release),
        )
        if baseline is not None and not _is_in_vain(comparison, loaded)
    ]


def _is_in_vain(comparison: Comparison, loaded: _Loaded) -> bool:
    wanted = [c for _, found in loaded.found for c in found if c.comparison is comparison]
    return bool(wanted) and all(c.baseline is None for c in wanted)


def _advisory(found: Sequence[tuple[Arm, list[Comparator]]], context: Context) -> list[Judged]:
    return [one for arm, compared in found for one in advisory(arm.name, compared[0], context)]


def _isolation(
    plan: Plan,
    document: PlanDocument,
    policy: Policy,
    attempts: Sequence[Attempt],
    reported: Iterable[store.ReportedEnvironment],
) -> list[ClaimResult]:
    by_key = {attempt.key: attempt for attempt in attempts}
    numbers = {(attempt.lane.name, attempt.number): attempt.key for attempt in attempts}
    lanes = {lane.name: lane for lane in document.lanes}
    reports = [
        Report(
            lane=row.lane,
            attempt=row.attempt,
            opened_at=by_key[row.attempt].opened_at,
            ended_at=_ended_at(by_key[row.attempt]),
            environment=row.environment,
        )
        for row in reported
        if row.attempt in by_key
    ]
    owing = frozenset(
        (run.lane, numbers[run.lane, run.attempt_number])
        for run in store.run_rows([plan.pk])
        if run.outcome is not None
        and lanes[run.lane].is_required
        and (run.lane, run.attempt_number) in numbers
    )
    return isolation_results(Case(lanes, reports, owing), claims=policy.isolation)


def _ended_at(attempt: Attempt) -> datetime:
    return attempt.ended_at or attempt.last_heard_at


def _base(plan: Plan, adopted: Adopted) -> Base:
    suite = plan_queries.current_suite(plan.project, plan.suite_name)
    rolling = adopted.rolling
    return Base(
        None if suite is None else plan_queries.suite_document(suite),
        None if rolling is None else plan_queries.plan_document(rolling),
    )
