"""Deliveries: addressed with the notice, claimed by one sender at a time, and what came of each try.

Whatever the channel, a row is claimed by a conditional UPDATE, sent without any transaction open, and
the outcome written by one UPDATE. Nothing sleeps: `next_attempt_at` says when a sweep tries again. A
channel that fails is paused as a whole, up to an hour, and never given up.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef

from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.transports.outcomes import Arrived, Failed, Outcome, Refused, Uncertain
from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, Notice

# Longer than one try takes, each of its steps at its time-out: ten exchanges with a mail server.
CLAIM = timedelta(seconds=240)
_FIRST_PAUSE = timedelta(seconds=10)
_LONGEST_PAUSE = timedelta(hours=1)


def address(notice: Notice, channels: Sequence[Channel], *, at: datetime) -> None:
    """Have a new notice sent on these channels, in the transaction that writes it."""
    Delivery.objects.bulk_create(
        Delivery(notice=notice, channel=channel, next_attempt_at=at) for channel in channels
    )
    note_change([notice])
    for channel in channels:
        if channel.kind != ChannelKind.GITHUB_ISSUE:
            _ask_for(channel)


def note_change(notices: Sequence[Notice]) -> None:
    """Have the rolling issues that carry the notices brought up to date."""
    carried = Delivery.objects.filter(channel=OuterRef("pk"), notice__in=notices)
    issues = Channel.objects.filter(
        Exists(carried), kind=ChannelKind.GITHUB_ISSUE, disabled_at__isnull=True
    )
    for issue in issues.order_by("pk"):
        Channel.objects.filter(pk=issue.pk).update(version=F("version") + 1)
        _ask_for(issue)


def try_at_once(channel: Channel, *, at: datetime) -> None:
    """End a channel's pause, and have all that it owes tried now."""
    Channel.objects.filter(pk=channel.pk).update(paused_until=None)
    Delivery.objects.filter(channel=channel, state=DeliveryState.PENDING).update(next_attempt_at=at)
    _ask_for(channel)


def drop_undeliverable() -> None:
    """Give up what disabled channels owe, also what was addressed to them in that moment."""
    Delivery.objects.filter(state=DeliveryState.PENDING, channel__disabled_at__isnull=False).update(
        state=DeliveryState.DROPPED
    )


def claimed(delivery: Delivery, *, at: datetime) -> bool:
    """Return whether this caller may send a delivery that was due when it was read; then it must.

    A claim that ran out was a sender that died: what it sent may have arrived.
    """
    is_uncertain = delivery.is_uncertain or delivery.claimed_until is not None
    # `attempts` is of this very row, so that of two claimants the second finds nothing.
    unchanged = Delivery.objects.filter(
        pk=delivery.pk, state=DeliveryState.PENDING, attempts=delivery.attempts
    )
    until = at + CLAIM
    if not unchanged.update(
        claimed_until=until, attempts=F("attempts") + 1, is_uncertain=is_uncertain
    ):
        return False
    delivery.claimed_until, delivery.is_uncertain = until, is_uncertain
    delivery.attempts += 1
    return True


def record(delivery: Delivery, outcome: Outcome, *, at: datetime) -> None:
    """Write what came of a try, with its delivery and its channel."""
    # Only while the claim is still this one: a slower sender must not undo a later one's record.
    row = Delivery.objects.filter(pk=delivery.pk, claimed_until=delivery.claimed_until)
    match outcome:
        case Arrived(external_id=external_id):
            row.update(
                state=DeliveryState.SENT,
                sent_at=at,
                external_id=external_id[:200],
                last_error="",
                claimed_until=None,
            )
            record_success(delivery.channel, at=at)
        case Refused() | Uncertain():
            wait = _pause(f"delivery {delivery.pk}", failures=delivery.attempts)
            row.update(
                next_attempt_at=_next_try(outcome, wait, at=at),
                is_uncertain=delivery.is_uncertain or isinstance(outcome, Uncertain),
                last_error=outcome.detail,
                claimed_until=None,
            )
            record_failure(delivery.channel, outcome, at=at)


def record_success(channel: Channel, *, at: datetime) -> None:
    """Note that a channel works."""
    Channel.objects.filter(pk=channel.pk).update(
        failures=0, paused_until=None, last_error="", last_sent_at=at
    )


def record_failure(channel: Channel, failed: Failed, *, at: datetime) -> None:
    """Note that a channel does not work, and leave it alone for a while."""
    failures = channel.failures + 1
    wait = _pause(f"channel {channel.pk}", failures=failures)
    Channel.objects.filter(pk=channel.pk).update(
        failures=failures,
        paused_until=_next_try(failed, wait, at=at),
        last_error=failed.detail,
        last_error_at=at,
    )


def _ask_for(channel: Channel) -> None:
    is_issue = channel.kind == ChannelKind.GITHUB_ISSUE
    name = TaskName.SEND_ISSUE_NOTICES if is_issue else TaskName.SEND_NOTICES
    enqueue_on_commit(name, channel_id=channel.pk)


def _next_try(failed: Failed, wait: timedelta, *, at: datetime) -> datetime:
    retry_at = failed.retry_at if isinstance(failed, Refused) else None
    return at + wait if retry_at is None else max(retry_at, at + _FIRST_PAUSE)


def _pause(what: str, *, failures: int) -> timedelta:
    """Return how long to wait after the `failures`-th failure in a row.

    Doubles up to a limit, less up to a quarter, so that what failed together does not come back
    together; which part follows from its name, so that a test can tell it.
    """
    pause = min(_FIRST_PAUSE * (1 << min(failures - 1, 16)), _LONGEST_PAUSE)
    spread = hashlib.sha256(f"{what}/{failures}".encode()).digest()[0] / 255
    return pause * (1 - spread / 4)
