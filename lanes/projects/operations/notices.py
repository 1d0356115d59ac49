"""Notices: raised once, resolved when their condition ends, acknowledged by a person."""

import re
import uuid
from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, QuerySet, Value, When
from django.urls import reverse

from lanes.projects.models import Channel, Notice, NoticeKind, NoticeState, Project
from lanes.projects.operations import audit, deliveries
from lanes.projects.queries import notices as queries

# Browsers read // and /\\ as the beginning of a host.
_PATH = re.compile(r"/(?![/\\])[!-~]{0,499}")
_KEY = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}")
# What no database, header or XML document takes, and what turns a line around where it is read.
_UNFIT = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
    r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_LONGEST_SUBJECT = 300
_LONGEST_DETAIL = 10_000


@transaction.atomic
def raise_notice(  # noqa: PLR0913 - one argument for each column
    project: Project,
    *,
    kind: NoticeKind,
    key: str,
    subject: str,
    detail: str,
    path: str,
    at: datetime,
) -> Notice:
    """Tell a project something on each of its channels, once; return the notice.

    Raised again with the same kind and key it is the same notice with the words of the first time,
    also after it was acknowledged or resolved, and nothing is sent again. So the key names the
    occurrence: what may come back after it ended takes a new one. Channels that are made later do
    not carry it. Subject and detail may hold text from outside: they are escaped wherever they go.

    Raises:
        ValueError: if the key is not one line of 1 to 200 characters, or the path is none of this
            server's.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"a notice's key is one line of 1 to 200 characters, not {key[:300]!r}")
    if not _PATH.fullmatch(path):
        raise ValueError(f"a notice leads to a path on this server, not to {path[:300]!r}")
    notice, is_new = Notice.objects.get_or_create(
        project=project,
        kind=kind,
        key=key,
        defaults={
            "subject": _cut(_line(subject), _LONGEST_SUBJECT),
            "detail": _cut(_text(detail), _LONGEST_DETAIL),
            "path": path,
            "raised_at": at,
            "updated_at": at,
        },
    )
    if is_new:
        active = Channel.objects.filter(project=project, disabled_at__isnull=True)
        carrying = [channel for channel in active if kind in channel.notice_kinds]
        deliveries.address(notice, carrying, at=at)
    return notice


def raise_test(channel: Channel, *, actor: str, at: datetime) -> Notice:
    """Write a notice for one channel alone; it has no condition, so it is never open."""
    key = str(uuid.uuid4())
    notice = Notice.objects.create(
        project=channel.project,
        kind=NoticeKind.TEST,
        key=key,
        subject=f"Test of the channel {channel.name}",
        detail=f"Asked for by {_line(actor)}. If you read this where you expected it, the channel works.",
        path=reverse("notice-channels", args=[channel.project.name]),
        state=NoticeState.RESOLVED,
        raised_at=at,
        resolved_at=at,
        updated_at=at,
    )
    deliveries.address(notice, [channel], at=at)
    return notice


@transaction.atomic
def resolve_notice(project: Project, *, kind: NoticeKind, key: str, at: datetime) -> bool:
    """Note that the condition of a notice has ended; return whether there was one to resolve.

    The rolling issue shows it and closes after the last; the other channels get nothing more.
    """
    return _resolve(Notice.objects.filter(project=project, kind=kind, key=key), at=at) > 0


@transaction.atomic
def resolve_notices(project: Project, *, kind: NoticeKind, key_prefix: str, at: datetime) -> int:
    """Resolve every notice of a condition whose keys begin alike; return how many there were.

    What comes back takes a new key each time, so its end may concern several.
    """
    unresolved = queries.unresolved_notices(project, kind).filter(key__startswith=key_prefix)
    return _resolve(unresolved, at=at)


@transaction.atomic
def acknowledge_notice(notice: Notice, *, actor: str, at: datetime) -> Notice:
    """Note who has taken notice; the first one stays, acknowledging again changes nothing.

    It ends nothing and holds nothing back: what was not sent yet still goes out, and says who has
    acknowledged it. Whom a channel reaches does not depend on who was quicker.
    """
    state = Case(
        When(resolved_at__isnull=True, then=Value(NoticeState.ACKNOWLEDGED)), default=F("state")
    )
    if Notice.objects.filter(pk=notice.pk, acknowledged_at__isnull=True).update(
        state=state, acknowledged_at=at, acknowledged_by=actor[:200], updated_at=at
    ):
        audit.record_audit(
            notice.project,
            actor=actor,
            action="notice.acknowledge",
            subject=f"{notice.kind} {notice.key}",
            at=at,
        )
        deliveries.note_change([notice])
    notice.refresh_from_db()
    return notice


def _resolve(notices: QuerySet[Notice], *, at: datetime) -> int:
    resolved = [
        notice
        for notice in notices.order_by("pk")
        if Notice.objects.filter(pk=notice.pk, resolved_at__isnull=True).update(
            state=NoticeState.RESOLVED, resolved_at=at, updated_at=at
        )
    ]
    # After all of them: who holds the channel's row waits for no notice, so nobody waits in a ring.
    deliveries.note_change(resolved)
    return len(resolved)


def _line(text: str) -> str:
    return " ".join(_text(text).split())


def _text(text: str) -> str:
    unix = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return _UNFIT.sub("\ufffd", unix)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
