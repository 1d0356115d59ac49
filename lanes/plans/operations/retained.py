"""What the rows of plans and attempts know that no document tells: told as columns, and made again."""

from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from pydantic import JsonValue

from evalhub.columns import Columns, column_values, columns_of
from evalhub.protocol import plan as plan_documents
from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.faults import parse_document
from evalhub.protocol.retained import RetainedAttempt, RetainedOrigin
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Lane, Origin, Plan, PolicyVersion
from lanes.plans.operations.documents import ReadDocument
from lanes.plans.operations.registration import store_plan
from lanes.projects.models import Project

RESTORED_BY = "reindex"
"""Who registered a plan whose rows were lost before anything told who it was."""
_MARKS = ("superseded_at", "cancelled_at")


def plan_columns(plan: Plan) -> dict[str, JsonValue]:
    """Return what a plan's row holds beside its identity and its document, as JSON."""
    return columns_of(plan, besides={"digest", "document"})


def attempt_columns(attempt: Attempt) -> dict[str, JsonValue]:
    """Return what an attempt's row holds beside what `attempt.json` tells, as JSON."""
    return columns_of(attempt, besides={"key", "number", "opened_at"})


def restore_policy(
    project: Project, policy: ReadDocument, *, is_foreign: bool, at: datetime
) -> PolicyVersion:
    """Return the project's policy of this digest; make it again, as of `at`, if it is not there.

    One that came with a foreign plan was never in force; it is from `at` on if a plan of this project
    was registered under it.
    """
    times = {"registered_at": at, "current_since": at}
    row, is_new = PolicyVersion.objects.get_or_create(
        project=project,
        digest=policy.digest,
        defaults={"document": policy.text, "is_foreign": is_foreign, **times},
    )
    if not is_new and row.is_foreign and not is_foreign:
        PolicyVersion.objects.filter(pk=row.pk).update(is_foreign=False, **times)
        row.refresh_from_db()
    return row


def restore_origin(plan: Plan, origin: RetainedOrigin) -> None:
    """Note where a foreign plan came from, in place of what was noted before."""
    content = origin.model_dump(mode="json", by_alias=True)
    Origin.objects.update_or_create(
        plan=plan,
        defaults={
            "project": origin.project,
            "instance": origin.instance,
            "archive_sha256": origin.archive_sha256,
            "exported_at": origin.exported_at,
            "imported_at": origin.imported_at,
            "imported_by": origin.imported_by,
            "document": canonical_bytes(content).decode(),
        },
    )


@transaction.atomic
def restore_plan(
    document: ReadDocument, *, policy: PolicyVersion, columns: Columns, at: datetime
) -> Plan:
    """Make a plan's row again, with its lanes. `at` stands in for a time that nothing tells.

    Raises:
        ColumnError: if a column does not take its value.
    """
    known = column_values(Plan, columns)
    row = store_plan(
        document,
        parse_document(plan_documents.Plan, document.text),
        policy=policy,
        registered_by=known.get("registered_by") or RESTORED_BY,
        at=known.get("registered_at") or at,
    )
    Plan.objects.filter(pk=row.pk).update(**known)
    return queries.plan_with_digest(row.digest)


def restore_marks(plan: Plan, columns: Columns) -> None:
    """Give a plan's row the marks that it was given later: superseded, cancelled."""
    told = {name: columns.get(name) for name in _MARKS if getattr(plan, name) is None}
    for name, value in column_values(Plan, told).items():
        if value is not None:
            Plan.objects.filter(pk=plan.pk, **{f"{name}__isnull": True}).update(**{name: value})


@transaction.atomic
def restore_attempt(plan: Plan, document: RetainedAttempt, *, columns: Columns) -> Attempt:
    """Make an attempt's row again.

    Raises:
        NotFoundError: if the plan has no lane of that name.
        ColumnError: if a column does not take its value.
    """
    lane = queries.lane_named(plan, document.lane)
    Attempt.objects.create(
        lane=lane,
        key=document.attempt,
        number=document.number,
        opened_at=document.opened_at,
        **{"last_heard_at": document.opened_at, **column_values(Attempt, columns)},
    )
    return queries.attempt_with_key(document.attempt)


class End(NamedTuple):
    """What the documents say of an attempt's end: its seal, and the attempt that followed."""

    sealed_at: datetime | None
    followed_at: datetime | None


def is_behind(attempt: Attempt, end: End) -> bool:
    """Return whether an attempt's row has not heard of the end that its documents tell."""
    return _ended(attempt, end)[0] != attempt.state


def restore_end(attempt: Attempt, end: End) -> None:
    """Bring an attempt's row to the end that its documents tell."""
    attempt.state, attempt.ended_at = _ended(attempt, end)
    attempt.save(update_fields=["state", "ended_at"])


def _ended(attempt: Attempt, end: End) -> tuple[str, datetime | None]:
    state, ended_at = attempt.state, attempt.ended_at
    if attempt.accepts_evidence and end.sealed_at is not None:
        state, ended_at = AttemptState.SEALED, end.sealed_at
    if state not in {AttemptState.SUPERSEDED, AttemptState.CANCELLED} and end.followed_at:
        state, ended_at = AttemptState.SUPERSEDED, ended_at or end.followed_at
    return state, ended_at


def lane_has_number(lane: Lane, number: int) -> bool:
    """Return whether another attempt of the lane has taken this number."""
    return Attempt.objects.filter(lane=lane, number=number).exists()
