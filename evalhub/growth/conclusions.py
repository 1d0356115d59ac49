"""Conclusions for generated plans: some are evaluated for good, the others say the same of themselves.

Evaluating a plan takes a tenth of a second. So the first plan of each suite and profile is really
evaluated on its rows, and every later one gets a copy under its own names. The numbers in a copy are
those of the first; its shape, its size and its digests are true.
"""

from datetime import datetime
from typing import Any, NamedTuple

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.scalars import rfc3339
from gates.checks.operations import summary
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import content_of
from gates.decisions.operations.judgment import judgment
from gates.verdicts.queries.evaluation import evaluate
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan

Json = dict[str, Any]


class Record(NamedTuple):
    """A decision record."""

    digest: str
    arm: str
    rubric: str
    category: str | None
    comparison: str
    verdict: str
    content: Json


class Told(NamedTuple):
    """What a plan means, and what its check says of it."""

    content: Json
    records: list[Record]
    output: summary.Output


class Baseline(NamedTuple):
    """What others are compared with."""

    plan_id: int
    plan: str
    evidence: str


class Names(NamedTuple):
    """What is a plan's own in its conclusion."""

    plan: str
    policy: str
    evidence: str
    attempts: list[Json]
    baseline: Baseline | None
    at: datetime


class Model(NamedTuple):
    """A conclusion that was evaluated, for others to copy."""

    content: Json
    records: list[Record]


def evaluated(plan: Plan, *, at: datetime) -> Model:
    """Return what the rows of `plan` mean, without storing it."""
    evaluation = evaluate(plan)
    event = plan_queries.plan_document(evaluation.plan).source.event
    judged = judgment(
        evaluation.findings,
        [draft.judged for draft in evaluation.gating],
        protected=evaluation.policy.inconclusive.for_event(event) == "action_required",
    )
    records = [
        Record(
            draft.digest,
            draft.judged.arm,
            draft.judged.rubric,
            draft.judged.category,
            draft.judged.comparator.comparison.value,
            draft.judged.verdict.value,
            draft.content,
        )
        for draft in evaluation.drafts
    ]
    return Model(content_of(evaluation, judged, at=at), records)


def copied(model: Model, names: Names) -> Told:
    """Return the model's conclusion as that of another plan."""
    records = [_copied_record(record, names) for record in model.records]
    digests = dict(zip((r.digest for r in model.records), (r.digest for r in records), strict=True))
    content = model.content | {
        "plan": names.plan,
        "policy_digest": names.policy,
        "evidence_digest": names.evidence,
        "attempts": names.attempts,
        "decided_at": rfc3339(names.at),
        "verdicts": [
            verdict | {"record": digests[verdict["record"]]}
            for verdict in model.content["verdicts"]
        ],
    }
    conclusion = Conclusion(
        conclusion=content["conclusion"], title=content["title"], content=content
    )
    told = summary.Concluded(Plan(digest=names.plan, generation=1), conclusion)
    return Told(content, records, summary.concluded_output([told]))


def _copied_record(record: Record, names: Names) -> Record:
    baseline = names.baseline
    own = record.content | {
        "plan": names.plan,
        "policy_digest": names.policy,
        "evidence_digest_c": names.evidence,
        "pooled_plans": {"b": None if baseline is None else [baseline.plan], "c": [names.plan]},
        "baseline_plan": None if baseline is None else baseline.plan,
        "evidence_digest_b": None if baseline is None else baseline.evidence,
    }
    return record._replace(digest=document_digest(own), content=own)
