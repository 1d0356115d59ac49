"""What pages, endpoints and feed readers are shown of notices, channels and trusted publishers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.functional import SimpleLazyObject
from django.utils.html import linebreaks
from django.utils.xmlutils import SimplerXMLGenerator

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.notices import Channel as ChannelDocument
from evalhub.protocol.scalars import rfc3339
from evalhub.web.templatetags.formatting import visible
from lanes.projects.models import (
    Channel,
    Delivery,
    DeliveryState,
    Notice,
    Project,
    SpeakerRefusal,
    Token,
    TrustedPublisher,
)
from lanes.projects.operations import wording
from lanes.projects.queries import notices, publishers, tokens


def open_notices(request: HttpRequest) -> dict[str, Any]:
    """Context processor: how many open notices the reader's projects have, for the navigation."""
    return {"open_notices": SimpleLazyObject(lambda: _open_notice_count(request))}


def _open_notice_count(request: HttpRequest) -> str:
    if not isinstance(request.user, User):
        return ""
    count = notices.open_notice_count_for(request.user)
    return f"{count}+" if count == notices.MOST_COUNTED else str(count or "")


class DeliveryRow(NamedTuple):
    """How a notice fares on one channel; `next_at` is when a try that failed is followed by another."""

    delivery: Delivery
    state: str
    error: str
    next_at: datetime | None


def delivery_rows(deliveries: Iterable[Delivery], *, at: datetime) -> list[DeliveryRow]:
    """Return what a page shows of each delivery: `sent`, `dropped`, `failing` or `moving`."""
    return [_delivery_row(delivery, at=at) for delivery in deliveries]


def _delivery_row(delivery: Delivery, *, at: datetime) -> DeliveryRow:
    channel = delivery.channel
    if delivery.state == DeliveryState.SENT:
        return DeliveryRow(delivery, "sent", "", None)
    if delivery.state == DeliveryState.DROPPED or channel.disabled_at is not None:
        return DeliveryRow(delivery, "dropped", "", None)
    # What waits behind a channel that fails has not failed itself.
    next_at = max(delivery.next_attempt_at, channel.paused_until or delivery.next_attempt_at)
    if delivery.last_error or next_at > at:
        return DeliveryRow(delivery, "failing", delivery.last_error or channel.last_error, next_at)
    return DeliveryRow(delivery, "moving", "", None)


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


def publisher_row(publisher: TrustedPublisher) -> dict[str, object]:
    """Return a trusted publisher for the API."""
    used = publisher.last_used_at
    return {
        "number": publisher.pk,
        **publishers.settings_of(publisher).model_dump(mode="json"),
        "created_at": rfc3339(publisher.created_at),
        "last_used_at": rfc3339(used) if used is not None else None,
    }


class ToldToken(NamedTuple):
    """A token and how it stands: `good`, `ending`, `expired` or `revoked`."""

    token: Token
    state: str


def told_token(token: Token, *, at: datetime) -> ToldToken:
    """Return a token that somebody made, with its state; `ending` is good, but not for long."""
    if token.revoked_at is not None:
        return ToldToken(token, "revoked")
    if token.expires_at is None:
        return ToldToken(token, "good")
    if token.expires_at <= at:
        return ToldToken(token, "expired")
    return ToldToken(token, "ending" if token.expires_at <= at + tokens.SOON else "good")


def token_row(token: Token, *, at: datetime) -> dict[str, object]:
    """Return a token that somebody made, for the API; its secret is not known here."""
    return {
        "number": token.pk,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "state": told_token(token, at=at).state,
        "made_by": token.made_by or None,
        "created_at": rfc3339(token.created_at),
        "expires_at": _time(token.expires_at),
        "last_used_at": _time(token.last_used_at),
        "revoked_at": _time(token.revoked_at),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)


def refusal_row(refusal: SpeakerRefusal) -> dict[str, object]:
    """Return for the API who was refused; `signed` says whether the issuer vouches for the claims."""
    return {
        "number": refusal.pk,
        "at": rfc3339(refusal.at),
        "code": refusal.code,
        "detail": refusal.detail,
        "signed": refusal.is_signed,
        "address": refusal.address,
        "claims": refusal.claims,
    }


class _Feed(Atom1Feed):
    """An Atom feed that can go on on another page, and whose time is never the present."""

    def add_root_elements(self, handler: SimplerXMLGenerator) -> None:
        super().add_root_elements(handler)
        if self.feed["next_url"] is not None:
            handler.addQuickElement("link", "", {"rel": "next", "href": self.feed["next_url"]})

    def latest_post_date(self) -> datetime:
        updated: datetime = self.feed["updated_at"]
        return updated


def feed(project: Project, rows: Sequence[Notice], *, next_before: int | None) -> str:
    """Return notices as an Atom feed. What is in it from outside can only be read as text."""
    pages = settings.PUBLIC_URL + reverse("notices", args=[project.name])
    address = settings.PUBLIC_URL + reverse("notice-feed", args=[project.name])
    atom = _Feed(
        title=f"Notices of {project.name}",
        link=pages,
        description=None,
        feed_url=address,
        author_name="evalhub",
        updated_at=updated_at(project, rows),
        next_url=f"{address}?before={next_before}" if next_before is not None else None,
    )
    for notice in rows:
        # Escaped first: readers take a summary for HTML.
        said = linebreaks(
            visible(f"{notice.detail}\n\n{wording.meanwhile(notice)}"), autoescape=True
        )
        atom.add_item(
            title=visible(notice.subject),
            link=wording.page_url(notice),
            description=said,
            unique_id=f"urn:uuid:{notice.uid}",
            pubdate=notice.raised_at,
            updateddate=notice.updated_at,
            categories=[notice.kind],
        )
    return atom.writeString("utf-8")


def feed_etag(rows: Sequence[Notice], *, next_before: int | None) -> str:
    """Return what changes whenever the feed does."""
    state = [f"{notice.pk} {notice.updated_at.isoformat()}" for notice in rows]
    lines = [settings.PUBLIC_URL, str(next_before), *state]
    return f'"{bytes_digest(chr(10).join(lines).encode()).removeprefix("sha256:")[:32]}"'


def updated_at(project: Project, rows: Sequence[Notice]) -> datetime:
    """Return when the newest change of the shown notices was."""
    return max([project.created_at, *(notice.updated_at for notice in rows)])
