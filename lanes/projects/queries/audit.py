"""The audit, newest first: by page for readers, in pieces of bounded size for exports."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils.timezone import get_default_timezone

from lanes.projects.models import AuditEntry, Project

_EXPORTED_AT_ONCE = 500
AREAS = (
    *("audit", "baseline", "channel", "evidence", "feed", "invitation", "member"),
    *("notice", "plan", "policy", "pool", "project", "publisher", "retention", "schedule"),
    *("suite", "token", "user"),
)
"""The first words of all actions."""


class Filter(NamedTuple):
    """Which entries are wanted; what is empty or None asks for all."""

    actor: str = ""
    area: str = ""
    """The first word of an action: `plan` of `plan.cancel`."""
    since: date | None = None
    until: date | None = None
    """The last day that is wanted."""


class AuditPage(NamedTuple):
    """Some entries, and the number of the last one where there are more; else None."""

    entries: list[AuditEntry]
    next: int | None


def audit_page(
    project: Project | None, wanted: Filter, *, before: int | None, limit: int
) -> AuditPage:
    """Return entries of a project, of the instance where it is None, older than the entry `before`."""
    found = list(_older(_entries(project, wanted), before)[: limit + 1])
    return AuditPage(found[:limit], found[limit - 1].pk if len(found) > limit else None)


def exported_entries(project: Project | None, wanted: Filter) -> Iterator[AuditEntry]:
    """Yield all entries, newest first, however many, without holding a cursor or a transaction open."""
    before: int | None = None
    while True:
        page = audit_page(project, wanted, before=before, limit=_EXPORTED_AT_ONCE)
        yield from page.entries
        if page.next is None:
            return
        before = page.next


def _entries(project: Project | None, wanted: Filter) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.filter(project=project).order_by("-at", "-pk")
    if wanted.actor:
        found = found.filter(actor=wanted.actor)
    if wanted.area:
        # A range instead of a prefix: SQLite's LIKE ignores case.
        found = found.filter(action__gte=f"{wanted.area}.", action__lt=f"{wanted.area}/")
    if wanted.since is not None:
        found = found.filter(at__gte=_midnight(wanted.since))
    if wanted.until is not None:
        found = found.filter(at__lt=_midnight(wanted.until + timedelta(days=1)))
    return found


def _older(entries: QuerySet[AuditEntry], before: int | None) -> QuerySet[AuditEntry]:
    if before is None:
        return entries
    at = AuditEntry.objects.filter(pk=before).values_list("at", flat=True).first()
    if at is None:
        return entries.none()
    return entries.filter(Q(at__lt=at) | Q(at=at, pk__lt=before))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=get_default_timezone())
