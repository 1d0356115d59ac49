"""Notices: what a project was told, and what has not been sent yet."""

from datetime import datetime, timedelta

from django.db.models import Min, QuerySet

from lanes.projects.models import Delivery, DeliveryState, Notice, NoticeKind, NoticeState, Project


def unresolved_notices(project: Project, kind: NoticeKind) -> QuerySet[Notice]:
    """Return the notices of a kind whose condition goes on, acknowledged or not, newest first."""
    unresolved = Notice.objects.filter(project=project, kind=kind, resolved_at__isnull=True)
    return unresolved.order_by("-pk")


def open_notice_count(project: Project) -> int:
    """Return how many notices nobody has acknowledged and whose condition goes on."""
    return Notice.objects.filter(project=project, state=NoticeState.OPEN).count()


def oldest_unsent_notice(at: datetime) -> timedelta | None:
    """Return how long the notice has been waiting that some channel owes longest; None if none does."""
    oldest: datetime | None = Delivery.objects.filter(
        state=DeliveryState.PENDING, channel__disabled_at__isnull=True
    ).aggregate(oldest=Min("notice__raised_at"))["oldest"]
    return None if oldest is None else max(at - oldest, timedelta())
