"""Decision records: one verdict with everything that it rests on, named by its own digest."""

from collections.abc import Iterable
from typing import NamedTuple

from evalhub.protocol.canonical import Digest, document_digest
from evalhub.stats.comparison import sentence, to_record
from evalhub.stats.outcomes import MeanComparison
from evalhub.stats.records import jsonable
from evidence.store import queries as store
from gates.verdicts.queries.comparisons import Judged
from gates.verdicts.queries.sides import Side

ENGINE_VERSION = "evalhub/1"
"""Changes whenever the same evidence could give another record."""

NO_LABELS = document_digest([])
"""The digest of the labels of a plan that nobody has triaged."""


class Draft(NamedTuple):
    """A decision record that is not stored yet."""

    digest: Digest
    judged: Judged
    content: dict[str, object]


def evidence_digest(plan_ids: Iterable[int]) -> Digest:
    """Return the digest of one side's evidence: every accepted item of class `record`.

    Over the sorted list of plan, attempt, path and sha256, pooled plans included.
    """
    rows = sorted([row.plan, row.attempt, row.path, row.sha256] for row in record_items(plan_ids))
    return document_digest(rows)


def record_items(plan_ids: Iterable[int]) -> Iterable[store.RecordItem]:
    return store.record_items(sorted(set(plan_ids)))


def side_digest(side: Side | None, known: dict[tuple[int, ...], Digest]) -> Digest | None:
    """Return a side's evidence digest, computed once per set of plans; None without a side."""
    if side is None:
        return None
    plans = tuple(sorted(set(side.plan_ids)))
    if plans not in known:
        known[plans] = evidence_digest(plans)
    return known[plans]


def draft(
    judged: Judged,
    *,
    plan_digest: str,
    policy_digest: str,
    sides: tuple[Digest | None, Digest | None],
) -> Draft:
    """Return the record of a verdict; `sides` are the digests of baseline and candidate."""
    comparator = judged.comparator
    content = {
        **to_record(judged.outcome, confirmation=judged.confirmation),
        "plan": plan_digest,
        "arm": judged.arm,
        "slice": judged.category,
        "comparison": comparator.comparison.value,
        "baseline_plan": None if comparator.baseline is None else _governing(comparator.baseline),
        "pooled_plans": {
            "b": None if comparator.baseline is None else _pooled(comparator.baseline),
            "c": _pooled(comparator.candidate),
        },
        "policy_digest": policy_digest,
        "evidence_digest_b": sides[0],
        "evidence_digest_c": sides[1],
        "labels_digest": NO_LABELS,
        "engine_version": ENGINE_VERSION,
        "reasons": [reason.value for reason in judged.reasons],
        "gates": judged.gates,
    }
    return Draft(document_digest(content), judged, content)


def verdict_row(draft: Draft) -> dict[str, object]:
    """Return a verdict as WIRE section 4 gives it.

    Beside WIRE's fields: `gates` (does it decide), `kind`, the arms' means (`mean_b`, `mean_c`; the
    quantiles of a tail rubric), `floor`, and `sentence`. `delta` and `ci95` are negative where the
    candidate is worse; `n` counts scenarios of both arms and pairs, `runs` counts runs.
    """
    outcome, content = draft.judged.outcome, draft.content
    is_mean = isinstance(outcome, MeanComparison)
    tail = content["tail"] if isinstance(content["tail"], dict) else {}
    return {
        "rubric": draft.judged.rubric,
        "category": draft.judged.category,
        "arm": draft.judged.arm,
        "comparison": draft.judged.comparator.comparison.value,
        "verdict": outcome.verdict.value,
        "confirmed": content["confirmed"],
        "delta": content.get("delta"),
        "ci95": content.get("ci95"),
        "mde": content.get("mde80"),
        "n": content["n"],
        "reasons": content["reasons"],
        "record": draft.digest,
        "gates": draft.judged.gates,
        "gate": outcome.rubric.gate.value,
        "kind": content["kind"],
        "runs": content["runs"],
        "mean_b": content.get("mean_b") if is_mean else tail.get("p95_b"),
        "mean_c": content.get("mean_c") if is_mean else tail.get("p95_c"),
        "floor": content.get("floor"),
        "sentence": sentence(outcome, name=_shown_name(draft.judged)),
    }


def advisory_row(judged: Judged) -> dict[str, object]:
    """Return what is only shown of a verdict that never gates."""
    content = to_record(judged.outcome, confirmation=None)
    return {
        "rubric": judged.rubric,
        "arm": judged.arm,
        "comparison": judged.comparator.comparison.value,
        "verdict": judged.verdict.value,
        "delta": content.get("delta"),
        "ci95": content.get("ci95"),
        "n": content["n"],
        "reasons": jsonable(judged.reasons),
        "sentence": sentence(judged.outcome, name=_shown_name(judged)),
    }


def _shown_name(judged: Judged) -> str:
    where = "" if judged.category is None else f" in {judged.category}"
    return f"{judged.rubric}{where}"


def _governing(side: Side) -> str:
    return side.members[0].plan.digest


def _pooled(side: Side) -> list[str]:
    return sorted({member.plan.digest for member in side.members})
