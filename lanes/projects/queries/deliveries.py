"""What channels owe, and what the senders look for."""

from datetime import datetime

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, When

from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, NoticeKind


def channel_with_id(channel_id: int) -> Channel:
    """Return a channel as tasks name it."""
    return Channel.objects.select_related("project").get(pk=channel_id)


def channels_of_kind(*, is_issue: bool) -> Q:
    """Select rolling issues, or all channels but those: each has its own sender."""
    kind = Q(kind=ChannelKind.GITHUB_ISSUE)
    return kind if is_issue else ~kind


def is_usable(at: datetime) -> Q:
    """Select the channels that are in use and not paused."""
    return Q(disabled_at__isnull=True) & (Q(paused_until__isnull=True) | Q(paused_until__lte=at))


def is_due(at: datetime) -> Q:
    """Select the deliveries that are to be sent now and that nobody is sending."""
    is_unclaimed = Q(claimed_until__isnull=True) | Q(claimed_until__lt=at)
    return Q(is_unclaimed, state=DeliveryState.PENDING, next_attempt_at__lte=at)


def is_in_flight(at: datetime) -> Q:
    """Select the deliveries that somebody is sending."""
    return Q(state=DeliveryState.PENDING, claimed_until__gte=at)


def has_free_way(channel: Channel, *, at: datetime) -> bool:
    """Return whether something may be sent on a channel now: it is usable, and nobody is sending."""
    in_flight = Delivery.objects.filter(is_in_flight(at), channel=channel)
    return Channel.objects.filter(is_usable(at), ~Exists(in_flight), pk=channel.pk).exists()


def due_deliveries(channel: Channel, *, at: datetime) -> QuerySet[Delivery]:
    """Return what a channel owes now: a test first, then the longest waiting."""
    due = Delivery.objects.filter(is_due(at), channel=channel)
    # Somebody waits for it, to learn whether what they have changed has helped.
    is_test = Case(When(notice__kind=NoticeKind.TEST, then=0), default=1)
    return due.select_related("notice__project", "channel").order_by(
        is_test, "next_attempt_at", "pk"
    )


def channels_with_due_deliveries(*, at: datetime) -> QuerySet[Channel]:
    """Return the usable channels, rolling issues aside, that owe something and have no sender."""
    of_channel = Delivery.objects.filter(channel=OuterRef("pk"))
    usable = Channel.objects.filter(is_usable(at), channels_of_kind(is_issue=False))
    return usable.filter(
        Exists(of_channel.filter(is_due(at))), ~Exists(of_channel.filter(is_in_flight(at)))
    ).order_by("pk")
