"""Typed factories for notices and channels, through the real operations."""

from collections.abc import Sequence
from datetime import datetime
from itertools import count

from lanes.projects.models import Channel, ChannelKind, Notice, NoticeKind, Project
from lanes.projects.operations import channels, notices
from lanes.projects.operations.channels import CHOSEN_KINDS
from tests.lanes.factories import NOW

_numbers = count(1)
_TARGETS = {
    ChannelKind.EMAIL: "ada@example.org",
    ChannelKind.WEBHOOK: "https://hub.test/in",
    ChannelKind.SLACK: "https://hooks.hub.test/services/T0/B0/geheim",
    ChannelKind.GITHUB_ISSUE: "",
}


def make_notice(
    project: Project,
    key: str | None = None,
    *,
    kind: NoticeKind = NoticeKind.NIGHTLY_RED,
    subject: str = "Nightly is red",
    detail: str = "resolved fell by 12 points.",
    at: datetime = NOW,
) -> Notice:
    return notices.raise_notice(
        project,
        kind=kind,
        key=key or f"night {next(_numbers)}",
        subject=subject,
        detail=detail,
        path="/plans/",
        at=at,
    )


def make_channel(
    project: Project,
    kind: ChannelKind = ChannelKind.EMAIL,
    *,
    name: str | None = None,
    target: str | None = None,
    notice_kinds: Sequence[NoticeKind] = CHOSEN_KINDS,
    at: datetime = NOW,
) -> Channel:
    return channels.put_channel(
        project,
        name or f"channel-{next(_numbers)}",
        kind=kind,
        target=_TARGETS[kind] if target is None else target,
        notice_kinds=notice_kinds,
        actor="user:ada",
        at=at,
    ).channel
