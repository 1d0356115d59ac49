"""The documents beside the segments, other than receipts: written at once, and by a sweep where that failed.

The rows are the facts. From these documents and the segments the rows can be made again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel

from evalhub.protocol.faults import DocumentError
from evalhub.protocol.retained import (
    AttemptState,
    RetainedAllocation,
    RetainedRefusal,
    RetainedSeal,
    RetainedState,
    parse_state,
)
from evidence.store.models import PlanCopy, Refusal, Seal, Segment, StorageOperation
from evidence.store.operations import faults, objects
from evidence.store.storage import ObjectMissingError, StorageUnavailableError, object_store
from lanes.budget.operations import retained as budget_retained
from lanes.plans.models import IS_AHEAD_OF_COPY, Attempt, Plan
from lanes.plans.operations import retained as plans_retained

_AT_ONCE = 500
# Each takes some objects; the others have their turn in the next sweep.
_PLANS_AT_ONCE = 500


def seal_document(seal: Seal) -> RetainedSeal:
    """Return what `seal.json` says."""
    return RetainedSeal(segments=seal.segments, digest=seal.digest, sealed_at=seal.sealed_at)


def seal_key(seal: Seal) -> str:
    return f"{objects.attempt_folder(seal.attempt)}/{objects.SEAL}"


def refusal_document(refusal: Refusal) -> RetainedRefusal:
    """Return why a whole segment was refused."""
    return RetainedRefusal(
        seq=objects.seq_of(refusal.object_key),
        sha256=refusal.sha256,
        size_bytes=refusal.size_bytes,
        category=refusal.category,
        code=refusal.code,
        detail=refusal.detail,
        refused_at=refusal.refused_at,
    )


def store_seal(seal: Seal) -> None:
    """Write `seal.json`, unless the object store is away; the sweep comes back."""
    _store_or_note(seal_key(seal), seal_document(seal), at=seal.sealed_at)


def store_refusal(refusal: Refusal) -> None:
    """Write the reason beside a refused segment, unless the object store is away."""
    key = objects.refusal_key(refusal.object_key)
    _store_or_note(key, refusal_document(refusal), at=refusal.refused_at)


def sweep_documents(*, at: datetime) -> int:
    """Write what is absent beside the segments, oldest first; return how many were written."""
    try:
        return _sweep_seals(at=at) + _sweep_refusals(at=at) + _sweep_plans()
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.SWEEP, error, at=at)
        return 0


def store_state(plan: Plan) -> None:
    """Write what the rows of a plan know that no other object tells, and the objects that it needs.

    What moves meanwhile is never told as seen: the next sweep writes the state anew.
    """
    known = _told_attempts(plan)
    attempts = _attempts_of(plan)
    if not known:
        objects.put_plan_documents(plan)
    for attempt in attempts:
        if attempt.key not in known:
            objects.put_attempt_documents(attempt)
    evidence = evidence_count(plan)
    told = [
        AttemptState(
            identity=objects.attempt_document(attempt),
            columns=plans_retained.attempt_columns(attempt),
        )
        for attempt in attempts
    ]
    allocations = [
        RetainedAllocation(lane=lane, pool=pool, columns=columns)
        for lane, pool, columns in budget_retained.allocation_columns(plan.digest)
    ]
    # Last: a version that it names has seen at least what was counted before.
    row = Plan.objects.get(pk=plan.pk)
    copied = {
        "copied_version": row.inputs_version + row.concluded_version,
        "copied_superseded_at": row.superseded_at,
        "copied_cancelled_at": row.cancelled_at,
    }
    for name, value in copied.items():
        setattr(row, name, value)
    state = RetainedState(
        plan=plan.digest,
        evidence=evidence,
        columns=plans_retained.plan_columns(row),
        attempts=told,
        allocations=allocations,
    )
    objects.put_document(f"{objects.plan_folder(plan)}/{objects.STATE}", state.with_digest())
    PlanCopy.objects.update_or_create(plan=row, defaults={"seen_version": changes_of(row)})
    Plan.objects.filter(pk=row.pk).update(**copied)


def changes_of(plan: Plan) -> int:
    """Return a number that rises with each change of a plan's row that its copy is to tell."""
    marks = (plan.superseded_at, plan.cancelled_at)
    return plan.inputs_version + plan.concluded_version + sum(mark is not None for mark in marks)


def evidence_count(plan: Plan) -> int:
    """Return how many segments of a plan were received, those refused as a whole included."""
    whole = Refusal.objects.filter(plan=plan, segment__isnull=True)
    return Segment.objects.filter(attempt__lane__plan=plan).count() + whole.count()


def _told_attempts(plan: Plan) -> set[str]:
    """Return the attempts that the state names which was stored last: their documents are there."""
    try:
        with object_store().open(f"{objects.plan_folder(plan)}/{objects.STATE}") as file:
            state = parse_state(file.read())
    except (ObjectMissingError, DocumentError):
        return set()
    return {attempt.identity.attempt for attempt in state.attempts}


def _attempts_of(plan: Plan) -> list[Attempt]:
    rows = Attempt.objects.filter(lane__plan=plan).order_by("lane_id", "number")
    rows = rows.select_related("lane__plan__project", "lane__plan__policy")
    return list(rows.defer("lane__plan__document", "lane__plan__policy__document"))


class _Due(NamedTuple):
    """A row of which nobody has seen the object yet."""

    pk: int
    key: str
    document: BaseModel


def _sweep_seals(*, at: datetime) -> int:
    rows = Seal.objects.filter(stored_at__isnull=True).order_by("sealed_at", "pk")
    rows = rows.select_related("attempt__lane__plan__project").defer(
        "attempt__lane__plan__document"
    )
    due = (_Due(row.pk, seal_key(row), seal_document(row)) for row in rows[:_AT_ONCE])
    return _write_absent(Seal, due, at=at)


def _sweep_refusals(*, at: datetime) -> int:
    rows = Refusal.objects.filter(segment__isnull=True, stored_at__isnull=True)
    due = (
        _Due(row.pk, objects.refusal_key(row.object_key), refusal_document(row))
        for row in rows.order_by("refused_at", "pk")[:_AT_ONCE]
    )
    return _write_absent(Refusal, due, at=at)


def _write_absent(model: type[Seal | Refusal], due: Iterable[_Due], *, at: datetime) -> int:
    seen: list[int] = []
    written = 0
    try:
        for one in due:
            if not object_store().exists(one.key):
                objects.put_document(one.key, one.document)
                written += 1
            seen.append(one.pk)
    finally:
        model.objects.filter(pk__in=seen).update(stored_at=at)
    return written


def _sweep_plans() -> int:
    behind = Plan.objects.filter(IS_AHEAD_OF_COPY).exclude(copy__rebuild_counted__isnull=False)
    oldest_first = behind.select_related("project", "policy").order_by("registered_at", "pk")
    plans = list(oldest_first[:_PLANS_AT_ONCE])
    for plan in plans:
        store_state(plan)
    return len(plans)


def _store_or_note(key: str, document: BaseModel, *, at: datetime) -> None:
    try:
        objects.put_document(key, document)
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.RECEIVE, error, at=at)
