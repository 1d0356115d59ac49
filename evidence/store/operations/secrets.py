"""Secrets that the lane did not replace: found at intake, or by a sweep; flagged and noted, not refused."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction

from evalhub.protocol.paths import ItemKind
from evalhub.protocol.redaction import secret_counts
from evidence.store.models import NOT_LOOKED_AT, UNREADABLE, Item, Segment
from evidence.store.queries import (
    EvidenceDamagedError,
    EvidenceRemovedError,
    item_bytes,
    secrets_in_items,
)
from lanes.plans.models import Attempt
from lanes.projects.models import Project
from lanes.projects.operations import audit

# A sweep comes every few seconds; large attachments are what it is for.
_ITEMS_AT_ONCE = 50
_BYTES_AT_ONCE = 64 * 2**20
_LONGEST = 200


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return what was found as an item's row keeps it: `aws:1 stripe:2`; empty for nothing."""
    words = [f"{kind}:{number}" for kind, number in sorted(counts.items())]
    while len(" ".join(words)) > _LONGEST:
        words.pop()
    return " ".join(words)


def note_found(attempt: Attempt, segment: Segment, items: Iterable[Item], *, at: datetime) -> None:
    """Write into the project's audit what was found in a segment, by kind, never what it says."""
    flagged = [item for item in items if item.has_secrets]
    if flagged:
        _note(attempt, flagged, place=f"segment {segment.seq}", at=at)


def note_raw_look(project: Project, *, actor: str, subject: str, at: datetime) -> None:
    """Write into the project's audit that somebody takes evidence with its secrets."""
    audit.record_audit(project, actor=actor, action="evidence.raw", subject=subject, at=at)


def look_at_items(*, at: datetime) -> int:
    """Look at items that intake left for later, oldest first; return how many were looked at.

    Those are large attachments, and what was received by a release that did not look.
    """
    due = Item.objects.filter(NOT_LOOKED_AT).select_related(
        "segment", "attempt__lane__plan__project"
    )
    due = due.defer("attempt__lane__plan__document")
    looked_at, size = 0, 0
    for item in due.order_by("pk")[:_ITEMS_AT_ONCE]:
        if looked_at and size + item.size_bytes > _BYTES_AT_ONCE:
            break
        _look_at(item, at=at)
        looked_at += 1
        size += item.size_bytes
    return looked_at


def _look_at(item: Item, *, at: datetime) -> None:
    try:
        data = item_bytes(item)
    except (EvidenceDamagedError, EvidenceRemovedError):
        # Told where it is read and by check_store; it is still masked whenever it can be read.
        item.secrets = UNREADABLE
    else:
        counts: Counter[str] = secret_counts(data, ItemKind(item.kind), name=item.name)
        item.secrets = counts_in_words(counts)
    with transaction.atomic():
        changed = Item.objects.filter(NOT_LOOKED_AT, pk=item.pk).update(secrets=item.secrets)
        if changed and item.has_secrets:
            _note(item.attempt, [item], place=item.shown_path, at=at)


def _note(attempt: Attempt, flagged: list[Item], *, place: str, at: datetime) -> None:
    plan = attempt.lane.plan
    audit.record_audit(
        plan.project,
        actor=audit.SYSTEM,
        action="evidence.secrets_found",
        subject=f"{attempt.lane.name} {attempt.key} {place}",
        after={
            "plan": plan.digest,
            "items": len(flagged),
            "secrets": secrets_in_items(flagged),
        },
        at=at,
    )
