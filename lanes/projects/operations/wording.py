"""A notice in the words of each channel. Its subject and detail may hold text from outside."""

import re
from datetime import datetime
from email.utils import parseaddr

from django.conf import settings
from django.urls import reverse

from evalhub.protocol.notices import Notice as NoticeDocument
from evalhub.web.transports.mail import Letter
from lanes.projects.models import Delivery, Notice

_LONGEST_SLACK_TEXT = 3000
_BREAK = "\u200b"
# What Slack, and servers that take its form, would make a mention, a link, an image or code of.
_LIVE = re.compile(r"@|#(?=\w)|:(?=//)|www(?=\.)|\](?=\()|!(?=\[)|`", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def document(notice: Notice) -> NoticeDocument:
    """Return a notice as it crosses the wire."""
    return NoticeDocument.model_validate(
        {
            "schema": "evalhub.notice/1",
            "id": str(notice.uid),
            "number": notice.pk,
            "project": notice.project.name,
            "kind": notice.kind,
            "key": notice.key,
            "subject": notice.subject,
            "detail": notice.detail,
            "state": notice.state,
            "url": settings.PUBLIC_URL + notice.path,
            "notice_url": page_url(notice),
            "raised_at": notice.raised_at,
            "acknowledged_at": notice.acknowledged_at,
            "acknowledged_by": notice.acknowledged_by,
            "resolved_at": notice.resolved_at,
        }
    )


def letter(delivery: Delivery) -> Letter:
    """Return the e-mail of a delivery; its Message-ID is equal for each try."""
    notice = delivery.notice
    lines = [
        notice.detail,
        "",
        f"More: {settings.PUBLIC_URL}{notice.path}",
        f"Acknowledge: {page_url(notice)}",
        "",
        f"Raised {_minute(notice.raised_at)} for {notice.project.name}. {meanwhile(notice)}".strip(),
    ]
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    return Letter(
        to=delivery.channel.target,
        subject=f"[{notice.project.name}] {notice.subject}",
        text="\n".join(lines) + "\n",
        message_id=f"<{notice.uid}.{delivery.channel_id}@{domain}>",
    )


def slack_text(delivery: Delivery) -> str:
    """Return the text of a delivery in Slack's form, in which nothing from outside is live."""
    notice = delivery.notice
    repeat = " This may be a repeat: the answer to an earlier try was lost."
    tail = "\n".join(
        [
            "",
            f"<{settings.PUBLIC_URL}{notice.path}|More> · <{page_url(notice)}|Acknowledge>",
            plain_in_slack(meanwhile(notice) + (repeat if delivery.is_uncertain else "")).strip(),
        ]
    ).rstrip()
    head = plain_in_slack(f"[{notice.project.name}] {notice.subject}\n{notice.detail}")
    left = _LONGEST_SLACK_TEXT - len(tail)
    return (head if len(head) <= left else f"{head[: left - 1]}…") + tail


def plain_in_slack(text: str) -> str:
    """Return text that Slack, and what takes its form, shows as it is.

    >>> plain_in_slack("<!channel> & @here").replace(_BREAK, "·")
    '&lt;!channel&gt; &amp; @·here'
    """
    return _LIVE.sub(lambda found: found[0] + _BREAK, text).translate(_ENTITIES)


def page_url(notice: Notice) -> str:
    """Return the address of a notice's own page."""
    return settings.PUBLIC_URL + reverse("notice", args=[notice.project.name, notice.pk])


def meanwhile(notice: Notice) -> str:
    """Say what has become of the notice since it was raised."""
    said = []
    if notice.acknowledged_at is not None:
        said.append(f"Acknowledged by {notice.acknowledged_by} {_minute(notice.acknowledged_at)}.")
    if notice.resolved_at is not None and notice.resolved_at != notice.raised_at:
        said.append(f"Over since {_minute(notice.resolved_at)}.")
    return " ".join(said)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
