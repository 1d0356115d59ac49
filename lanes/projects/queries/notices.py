"""Notices: what a project was told, and what has not been sent yet."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Min, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from evalhub.web.errors import NotFoundError
from lanes.projects.models import Delivery, DeliveryState, Notice, NoticeKind, NoticeState, Project
from lanes.projects.queries import members

MOST_COUNTED = 100
_NOT_OPEN = [NoticeState.ACKNOWLEDGED, NoticeState.RESOLVED]


class Place(NamedTuple):
    """Where a page of notices begins: before a notice, among the open ones or among the rest."""

    is_open: bool
    before: int


class NoticePage(NamedTuple):
    """Some notices, and where those after them begin; None if there are none."""

    notices: list[Notice]
    next: Place | None


def notice_numbered(project: Project, number: int) -> Notice:
    """Return a project's notice.

    Raises:
        NotFoundError: if the project has none of that number.
    """
    notice = Notice.objects.select_related("project").filter(project=project, pk=number).first()
    if notice is None:
        raise NotFoundError(f"Project {project.name} has no notice {number}.")
    return notice


def notices_of(
    project: Project,
    *,
    states: Sequence[NoticeState] = tuple(NoticeState),
    kind: NoticeKind | None = None,
    before: int | None = None,
    limit: int,
) -> list[Notice]:
    """Return a project's notices in these states, newest first."""
    found = Notice.objects.filter(project=project)
    match list(states):
        case [state]:
            found = found.filter(state=state)
        case several if len(several) < len(NoticeState):
            found = found.filter(state__in=several)
    if kind is not None:
        found = found.filter(kind=kind)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found.select_related("project").order_by("-pk")[:limit])


def notice_page(
    project: Project,
    *,
    state: NoticeState | None,
    kind: NoticeKind | None,
    start: Place | None,
    limit: int,
) -> NoticePage:
    """Return notices of one state, or of all with the open ones first; each part newest first."""
    parts = [[NoticeState.OPEN], _NOT_OPEN] if state is None else [[state]]
    if state is None and start is not None and not start.is_open:
        parts = parts[1:]
    found: list[Notice] = []
    before = start.before if start is not None else None
    for states in parts:
        left = limit + 1 - len(found)
        if left:
            found += notices_of(project, states=states, kind=kind, before=before, limit=left)
        before = None
    if len(found) <= limit:
        return NoticePage(found, None)
    last = found[limit - 1]
    return NoticePage(found[:limit], Place(last.state == NoticeState.OPEN, last.pk))


def projects_with_open_counts(user: User | AnonymousUser) -> list[Project]:
    """Return the projects that a person may see, by name, each with its `open_count`."""
    of_project = Notice.objects.filter(project=OuterRef("pk"), state=NoticeState.OPEN)
    count = of_project.order_by().values("project").annotate(count=Count("pk")).values("count")
    return list(members.projects_of(user).annotate(open_count=Coalesce(Subquery(count), 0)))


def deliveries_of(notice: Notice) -> QuerySet[Delivery]:
    """Return how a notice fared on each channel, by the channels' names."""
    return notice.deliveries.select_related("channel__project").order_by("channel__name", "pk")


def open_notice_count_for(user: User) -> int:
    """Return how many open notices a person's projects have; at most MOST_COUNTED are counted."""
    found = Notice.objects.filter(state=NoticeState.OPEN)
    if not user.is_superuser:
        found = found.filter(project__in=members.projects_of(user).order_by())
    return found[:MOST_COUNTED].count()


def unresolved_notices(project: Project, kind: NoticeKind) -> QuerySet[Notice]:
    """Return the notices of a kind whose condition goes on, acknowledged or not, newest first."""
    unresolved = Notice.objects.filter(project=project, kind=kind, resolved_at__isnull=True)
    return unresolved.order_by("-pk")


def oldest_unsent_notice(at: datetime) -> timedelta | None:
    """Return how long the notice has been waiting that some channel owes longest; None if none does."""
    oldest: datetime | None = Delivery.objects.filter(
        state=DeliveryState.PENDING, channel__disabled_at__isnull=True
    ).aggregate(oldest=Min("notice__raised_at"))["oldest"]
    return None if oldest is None else max(at - oldest, timedelta())
