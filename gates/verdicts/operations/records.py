"""Store what an evaluation found: its decision records and the baselines that its plan keeps."""

from datetime import datetime

from gates.verdicts.models import ChosenBaseline, DecisionRecord
from gates.verdicts.queries.evaluation import Evaluation
from gates.verdicts.queries.records import Draft


def store_evaluation(evaluation: Evaluation, *, at: datetime) -> list[DecisionRecord]:
    """Store an evaluation's records in the caller's transaction; return them in its order.

    A record is named by its content, so the same verdict on the same evidence is stored once.
    """
    for choice in evaluation.choices:
        ChosenBaseline.objects.update_or_create(
            plan=evaluation.plan,
            kind=choice.kind,
            defaults={
                "baseline": choice.baseline,
                "evidence_digest": evaluation.own_evidence,
                "chosen_at": at,
            },
        )
    return [_stored(draft, evaluation, at=at) for draft in evaluation.drafts]


def _stored(draft: Draft, evaluation: Evaluation, *, at: datetime) -> DecisionRecord:
    judged = draft.judged
    record, _ = DecisionRecord.objects.get_or_create(
        digest=draft.digest,
        defaults={
            "plan": evaluation.plan,
            "arm": judged.arm,
            "rubric": judged.rubric,
            "category": judged.category,
            "comparison": judged.comparator.comparison.value,
            "verdict": judged.verdict.value,
            "content": draft.content,
            "decided_at": at,
        },
    )
    return record
