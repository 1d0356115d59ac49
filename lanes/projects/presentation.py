"""What pages and endpoints show of notices and channels."""

from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from evalhub.protocol.notices import Channel as ChannelDocument
from lanes.projects.models import Channel
from lanes.projects.queries import notices


def open_notices(request: HttpRequest) -> dict[str, Any]:
    """Context processor: how many open notices the reader's projects have, for the navigation."""
    return {"open_notices": SimpleLazyObject(lambda: _open_notice_count(request))}


def _open_notice_count(request: HttpRequest) -> str:
    if not isinstance(request.user, User):
        return ""
    count = notices.open_notice_count_for(request.user)
    return f"{count}+" if count == notices.MOST_COUNTED else str(count or "")


def channel_document(channel: Channel) -> ChannelDocument:
    """Return a channel, as its query gives it, for the API."""
    return ChannelDocument.model_validate(channel_fields(channel))


def channel_fields(channel: Channel) -> dict[str, Any]:
    """Return what is told of a channel: of its target the place, of its secret nothing."""
    return {
        "name": channel.name,
        "kind": channel.kind,
        "place": channel.place,
        "notices": channel.notice_kinds,
        "created_at": channel.created_at,
        "disabled_at": channel.disabled_at,
        "failures": channel.failures,
        "last_error": channel.last_error,
        "last_error_at": channel.last_error_at,
        "last_sent_at": channel.last_sent_at,
        "waiting": getattr(channel, "waiting", 0),
    }


def is_paused(channel: Channel, *, at: datetime) -> bool:
    """Return whether a channel is left alone because it failed."""
    return channel.paused_until is not None and channel.paused_until > at
