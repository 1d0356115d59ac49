"""Channels: made, changed, tried and disabled by maintainers."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from evalhub.web.errors import DomainError
from evalhub.web.transports import addresses, signatures
from evalhub.web.transports.addresses import UnfitTargetError
from lanes.projects.models import (
    Channel,
    ChannelKind,
    Notice,
    NoticeKind,
    Project,
)
from lanes.projects.operations import audit, deliveries, notices

CHOSEN_KINDS = tuple(kind for kind in NoticeKind if kind != NoticeKind.TEST)
"""What a channel can be asked to carry; a test is always of one channel."""

MOST_CHANNELS = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_LONGEST_ADDRESS = 254
_BETWEEN_TESTS = timedelta(seconds=10)
_SETTINGS = ["target", "secret", "notice_kinds", "disabled_at", "paused_until", "failures"]


class InvalidChannelError(DomainError):
    status = 422
    code = "invalid-channel"


class ChannelConflictError(DomainError):
    status = 409
    code = "channel-conflict"


class TestTooSoonError(DomainError):
    status = 429
    code = "test-too-soon"
    fix = "Look how that test fares, or try again in ten seconds."
    retry_after_seconds = 10


class KeptChannel(NamedTuple):
    """A channel and, where it is new, the secret that signs its webhooks, shown this once."""

    channel: Channel
    secret: str | None
    is_new: bool


@transaction.atomic
def put_channel(  # noqa: PLR0913 - a channel is said in full by whoever makes it
    project: Project,
    name: str,
    *,
    kind: ChannelKind,
    target: str | None,
    notice_kinds: Sequence[NoticeKind],
    actor: str,
    at: datetime,
    new_secret: bool = False,
) -> KeptChannel:
    """Make a channel, or change the one of that name; a disabled one comes back into use.

    Without a target an existing channel keeps its own. What it owes is tried again at once.

    Raises:
        InvalidChannelError: if name, target or kinds are not what they should be.
        ChannelConflictError: if the name belongs to a channel of another kind, there is another
            rolling issue, or there are too many channels.
    """
    if not _NAME.fullmatch(name):
        raise InvalidChannelError(
            f"The channel's name was {name[:80]!r}; it takes up to 50 lower-case letters, digits and"
            " hyphens, beginning with a letter or digit."
        )
    chosen = [kind for kind in CHOSEN_KINDS if kind in notice_kinds]
    if not chosen or len(chosen) != len(set(notice_kinds)):
        raise InvalidChannelError(
            f"The channel's notices must be one or more of {', '.join(CHOSEN_KINDS)}."
        )
    # Two who change a channel take turns, so that neither writes back what the other has replaced.
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    found = Channel.objects.filter(project=project, name=name).first()
    _check_room(project, found, kind)
    if target is None and found is not None:
        target = found.target
    channel = found or Channel(project=project, name=name, kind=kind, created_at=at)
    before = None if found is None else _described(found)
    secret = None
    if kind == ChannelKind.WEBHOOK and (new_secret or not channel.secret):
        secret = channel.secret = signatures.new_secret()
    channel.target = _checked_target(kind, target or "")
    channel.notice_kinds = [kind.value for kind in chosen]
    channel.disabled_at = channel.paused_until = None
    channel.failures = 0
    try:
        with transaction.atomic():
            # Not all of a row that is there: senders write into it too.
            channel.save(update_fields=None if found is None else _SETTINGS)
    except IntegrityError:
        raise ChannelConflictError(
            f"Somebody else made a channel {name!r}, or a rolling issue, in this moment.",
            fix="Look at the channels, and change the one that is there.",
        ) from None
    deliveries.try_at_once(channel, at=at)
    audit.record_audit(
        project,
        actor=actor,
        action="channel.put",
        subject=name,
        before=before,
        after=_described(channel) | {"new_secret": secret is not None},
        at=at,
    )
    return KeptChannel(channel, secret, is_new=found is None)


@transaction.atomic
def disable_channel(channel: Channel, *, actor: str, at: datetime) -> None:
    """End a channel's use: what it owes is dropped. Disabling it again changes nothing."""
    if Channel.objects.filter(pk=channel.pk, disabled_at__isnull=True).update(disabled_at=at):
        deliveries.drop_undeliverable()
        audit.record_audit(
            channel.project,
            actor=actor,
            action="channel.disable",
            subject=channel.name,
            before=_described(channel),
            at=at,
        )
    channel.refresh_from_db()


@transaction.atomic
def test_channel(channel: Channel, *, actor: str, at: datetime) -> Notice:
    """Send a notice on this channel alone, at once, even while it is paused; return the notice.

    Raises:
        ChannelConflictError: if the channel is disabled.
        TestTooSoonError: if there was a test just now: the address may be of somebody who did not ask.
    """
    if channel.disabled_at is not None:
        raise ChannelConflictError(
            f"The channel {channel.name} is disabled.", fix="Put it into use again first."
        )
    # Of two tests at once the second one sees the first.
    Channel.objects.select_for_update(no_key=True).get(pk=channel.pk)
    newest = Notice.objects.filter(deliveries__channel=channel, kind=NoticeKind.TEST)
    if newest.filter(raised_at__gt=at - _BETWEEN_TESTS).exists():
        raise TestTooSoonError("This channel was tested a few seconds ago.")
    notice = notices.raise_test(channel, actor=actor, at=at)
    deliveries.try_at_once(channel, at=at)
    audit.record_audit(
        channel.project, actor=actor, action="channel.test", subject=channel.name, at=at
    )
    return notice


def _check_room(project: Project, found: Channel | None, kind: ChannelKind) -> None:
    if found is not None and found.kind != kind:
        raise ChannelConflictError(
            f"The channel {found.name} is of the kind {found.kind}.",
            fix="Choose another name for a channel of another kind.",
        )
    others = Channel.objects.filter(project=project)
    if found is not None:
        others = others.exclude(pk=found.pk)
    issue = others.filter(kind=ChannelKind.GITHUB_ISSUE, disabled_at__isnull=True).first()
    if kind == ChannelKind.GITHUB_ISSUE and issue is not None:
        raise ChannelConflictError(
            f"The project has a rolling issue already: the channel {issue.name}.",
            fix="Change that one, or disable it first.",
        )
    if others.count() >= MOST_CHANNELS:
        raise ChannelConflictError(
            f"The project has {MOST_CHANNELS} channels, used or disabled.",
            fix="Change one that nobody reads.",
        )


def _checked_target(kind: ChannelKind, target: str) -> str:
    match kind:
        case ChannelKind.GITHUB_ISSUE if target:
            raise InvalidChannelError(
                "A rolling issue takes no target: it is in the project's own repository."
            )
        case ChannelKind.EMAIL:
            return _checked_address(target)
        case ChannelKind.WEBHOOK | ChannelKind.SLACK:
            try:
                addresses.target_of(target, allowed=addresses.allowance(settings.WEBHOOK_HOSTS))
            except UnfitTargetError as error:
                raise InvalidChannelError(str(error)) from error
    return target


def _checked_address(address: str) -> str:
    try:
        validate_email(address)
    except ValidationError:
        address = ""
    if not (0 < len(address) <= _LONGEST_ADDRESS and address.isprintable()):
        raise InvalidChannelError(
            "The target must be one e-mail address; for several people, make several channels or"
            " give the address of a list."
        )
    return address


def _described(channel: Channel) -> dict[str, object]:
    """Return what the audit may say of a channel: no secret, and of a URL the host alone."""
    return {
        "kind": channel.kind,
        "place": channel.place,
        "notices": channel.notice_kinds,
        "disabled": channel.disabled_at is not None,
    }
