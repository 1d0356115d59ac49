"""Channels of a project."""

from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from evalhub.web.errors import NotFoundError
from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, Project


def channels_of(project: Project) -> QuerySet[Channel]:
    """Return a project's channels, those in use first, by name; `waiting` is what each owes."""
    # Not by a join: a channel owes little and has sent much.
    owed = Delivery.objects.filter(channel=OuterRef("pk"), state=DeliveryState.PENDING)
    count = owed.order_by().values("channel").annotate(count=Count("pk")).values("count")
    found = Channel.objects.filter(project=project).select_related("project")
    return found.annotate(waiting=Coalesce(Subquery(count), 0)).order_by(
        F("disabled_at").asc(nulls_first=True), "name"
    )


def channel_named(project: Project, name: str) -> Channel:
    """Return a project's channel, with `waiting`.

    Raises:
        NotFoundError: if it has none of that name.
    """
    channel = channels_of(project).filter(name=name).first()
    if channel is None:
        raise NotFoundError(f"Project {project.name} has no channel {name!r}.")
    return channel


def used_channels(kind: ChannelKind) -> QuerySet[Channel]:
    """Return the channels of a kind that are not disabled, of all projects."""
    return Channel.objects.filter(kind=kind, disabled_at__isnull=True)


def failing_channels() -> QuerySet[Channel]:
    """Return the channels in use on which the last try failed, the worst first, of all projects."""
    failing = Channel.objects.filter(disabled_at__isnull=True, failures__gt=0)
    return failing.select_related("project").order_by("-failures", "pk")
