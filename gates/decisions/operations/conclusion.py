"""Conclude a plan: evaluate outside any transaction, then store everything in one short one."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from evalhub.protocol.scalars import rfc3339
from gates.decisions.models import Conclusion
from gates.decisions.operations.judgment import Judgment, judgment
from gates.decisions.operations.nightly import tell_of_nightly
from gates.decisions.operations.sentences import lines_of, title_of
from gates.verdicts.operations import baselines as baseline_operations
from gates.verdicts.operations import records as record_operations
from gates.verdicts.queries import baselines as baseline_queries
from gates.verdicts.queries.evaluation import Evaluation, EvidenceMovedError, evaluate
from gates.verdicts.queries.records import ENGINE_VERSION, advisory_row, verdict_row
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import lifecycle


def conclude(
    plan: Plan, *, at: datetime, also: Callable[[Conclusion], None] | None = None
) -> Conclusion | None:
    """Store what the evidence of a finished plan means; return the conclusion that now governs.

    Safe to repeat: on the same inputs it returns the conclusion that is there. `also` is called in
    the storing transaction, so that what follows from a conclusion is stored with it or not at all.
    Returns None, and stores nothing, if the plan is not finished (neither sealed nor closed nor
    overdue), is no gate, or if its inputs moved while they were evaluated.
    """
    plan = Plan.objects.select_related("project").get(pk=plan.pk)
    if plan.kind != "gate" or not plan_queries.is_finished(plan, at=at):
        return None
    known = _on(plan, plan.inputs_version)
    if known is not None:
        return known
    try:
        evaluation = evaluate(plan)
    except EvidenceMovedError:
        return None
    judged = judgment(
        evaluation.findings,
        [draft.judged for draft in evaluation.gating],
        protected=_is_protected(evaluation),
    )
    return store_conclusion(evaluation, judged, at=at, also=also)


def _on(plan: Plan, inputs_version: int) -> Conclusion | None:
    return Conclusion.objects.filter(plan=plan, inputs_version=inputs_version).first()


def _is_protected(evaluation: Evaluation) -> bool:
    event = plan_queries.plan_document(evaluation.plan).source.event
    return evaluation.policy.inconclusive.for_event(event) == "action_required"


def store_conclusion(
    evaluation: Evaluation,
    judged: Judgment,
    *,
    at: datetime,
    also: Callable[[Conclusion], None] | None,
) -> Conclusion | None:
    """Store an evaluation and what it means in one transaction; nothing if the inputs moved."""
    content = content_of(evaluation, judged, at=at)
    plan, seen = evaluation.plan, evaluation.plan.inputs_version
    pooling = _pooling_plans(evaluation)
    waiting = baseline_operations.plans_that_wait_for(evaluation)
    with transaction.atomic():
        # Conditional on the version: whoever else concluded first, or moved the inputs, wins.
        is_marked = lifecycle.mark_concluded(
            plan, inputs_version=seen, at=at, beside={*pooling, *waiting}
        )
        if not is_marked:
            return _on(plan, seen) if _is_current(plan, seen) else None
        known = _on(plan, seen)
        word = judged.word.value if known is None else known.conclusion
        lifecycle.note_conclusion(plan, word, inputs_version=seen)
        if known is not None:
            return known
        records = record_operations.store_evaluation(evaluation, at=at)
        conclusion = Conclusion.objects.create(
            plan=plan,
            generation=plan.generation,
            inputs_version=seen,
            conclusion=word,
            title=title_of(judged, evaluation),
            content=content,
            decided_at=at,
        )
        conclusion.records.set(records)
        baseline = baseline_operations.follow_with_rolling_baseline(evaluation, at=at)
        lifecycle.bump_others({*pooling, *(waiting if baseline is not None else ())}, at=at)
        tell_of_nightly(conclusion, at=at)
        if also is not None:
            also(conclusion)
    return conclusion


def _pooling_plans(evaluation: Evaluation) -> list[int]:
    """Return the plans that count this one's runs too, if it has others than when it was concluded last.

    Each of them then comes to what it would have come to with these runs from the beginning.
    """
    plan = evaluation.plan
    before = Conclusion.objects.filter(plan=plan).order_by("-inputs_version").first()
    if before is not None and before.content.get("own_evidence_digest") == evaluation.own_evidence:
        return []
    return baseline_queries.plans_that_pool(plan)


def _is_current(plan: Plan, seen: int) -> bool:
    return Plan.objects.filter(pk=plan.pk, inputs_version=seen).exists()


def content_of(evaluation: Evaluation, judged: Judgment, *, at: datetime) -> dict[str, object]:
    """Return the conclusion as WIRE section 4 gives it.

    Beside WIRE's fields: `sentences` (plain lines), `data_reasons`, `left_out` (verdicts that show
    neither harm nor safety), `isolation` (each claim of the policy), `coverage` (by lane),
    `advisory` (verdicts that never gate), `unknown_cost_calls`, `own_evidence_digest` (without pooled
    plans).
    """
    plan = evaluation.plan
    return {
        "plan": plan.digest,
        "generation": plan.generation,
        "conclusion": judged.word.value,
        "title": title_of(judged, evaluation),
        "findings": [finding.as_json() for finding in evaluation.findings],
        "verdicts": [verdict_row(draft) for draft in evaluation.drafts],
        "attempts": [_attempt_row(attempt) for attempt in evaluation.attempts],
        # What a foreign plan cost was paid where it ran, and is not known here.
        "spend_microusd": None if plan.is_foreign else evaluation.spend.spent_microusd,
        "unknown_cost_calls": evaluation.spend.unknown_calls,
        "evidence_digest": evaluation.evidence_digest,
        "own_evidence_digest": evaluation.own_evidence,
        "policy_digest": plan.policy.digest,
        "engine_version": ENGINE_VERSION,
        "decided_at": rfc3339(at),
        "sentences": lines_of(judged, evaluation),
        "data_reasons": [reason.value for reason in judged.data_reasons],
        "left_out": list(judged.left_out),
        "isolation": [result.as_json() for result in evaluation.isolation],
        "coverage": [lane.as_json() for lane in evaluation.coverage],
        "advisory": [advisory_row(one) for one in evaluation.advisory],
    }


def _attempt_row(attempt: Attempt) -> dict[str, object]:
    return {
        "lane": attempt.lane.name,
        "attempt": attempt.key,
        "number": attempt.number,
        "state": str(attempt.state),
    }
