"""Notices: raised once, resolved when their condition ends, acknowledged by a person."""

import unicodedata
from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, Value, When

from lanes.projects.models import (
    Channel,
    ChannelKind,
    Delivery,
    Notice,
    NoticeKind,
    NoticeState,
    Project,
)
from lanes.projects.operations import audit
from lanes.projects.queries import notices as queries

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
        ValueError: if the key is empty or longer than 200 characters, or the path is none of this
            server's.
    """
    if not 0 < len(key) <= 200 or "\0" in key:
        raise ValueError(f"a notice's key has 1 to 200 characters and no NUL, not {key[:300]!r}")
    if not path.startswith("/") or path.startswith("//") or len(path) > 500:
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
        _address(notice, carrying, at=at)
    return notice


@transaction.atomic
def resolve_notice(project: Project, *, kind: NoticeKind, key: str, at: datetime) -> bool:
    """Note that the condition of a notice has ended; return whether there was one to resolve.

    The rolling issue shows it and closes after the last; the other channels get nothing more.
    """
    unresolved = Notice.objects.filter(
        project=project, kind=kind, key=key, resolved_at__isnull=True
    )
    if not unresolved.update(state=NoticeState.RESOLVED, resolved_at=at, updated_at=at):
        return False
    _note_change(Notice.objects.get(project=project, kind=kind, key=key))
    return True


@transaction.atomic
def resolve_notices(project: Project, *, kind: NoticeKind, key_prefix: str, at: datetime) -> int:
    """Resolve every notice of a condition whose keys begin alike; return how many there were.

    What comes back takes a new key each time, so its end may concern several.
    """
    unresolved = queries.unresolved_notices(project, kind).filter(key__startswith=key_prefix)
    keys = list(unresolved.values_list("key", flat=True))
    return sum(resolve_notice(project, kind=kind, key=key, at=at) for key in keys)


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
        _note_change(notice)
    notice.refresh_from_db()
    return notice


def _address(notice: Notice, channels: list[Channel], *, at: datetime) -> None:
    Delivery.objects.bulk_create(
        Delivery(notice=notice, channel=channel, next_attempt_at=at) for channel in channels
    )
    _note_change(notice)


def _note_change(notice: Notice) -> None:
    """Have the rolling issue that carries the notice brought up to date."""
    issues = Channel.objects.filter(
        kind=ChannelKind.GITHUB_ISSUE, disabled_at__isnull=True, deliveries__notice=notice
    )
    issues.update(version=F("version") + 1)


def _line(text: str) -> str:
    return " ".join(_text(text).split())


def _text(text: str) -> str:
    """Return `text` without what no database, header or XML document takes."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cs"}
        else "\ufffd"
        for character in unix
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
