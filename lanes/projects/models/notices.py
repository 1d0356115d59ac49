"""What people are told without having asked: notices, the channels that carry them, feeds."""

import uuid
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.db.models import Q

from lanes.projects.models.speakers import Project


class NoticeKind(models.TextChoices):
    """What people are told of without having asked."""

    NIGHTLY_RED = "NIGHTLY_RED"
    NIGHTLY_ABSENT = "NIGHTLY_ABSENT"
    BUDGET = "BUDGET"
    DRIFT = "DRIFT"
    TEST = "TEST", "test of a channel"


class NoticeState(models.TextChoices):
    """Open until somebody acknowledges it or its condition ends."""

    OPEN = "OPEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"


class Notice(models.Model):
    """Something that people are to know, told once on each channel.

    `key` names the occurrence (a plan, a night, a pool's limit in a month): raised again it is the
    same notice. `state` follows from the two times and is kept for the lists' indexes.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="notices")
    uid = models.UUIDField(
        default=uuid.uuid4, unique=True, help_text="Names it to mail servers, receivers, readers."
    )
    kind = models.CharField(max_length=20, choices=NoticeKind.choices)
    key = models.CharField(max_length=200)
    subject = models.CharField(max_length=300)
    detail = models.TextField()
    path = models.CharField(max_length=500, help_text="Where on this server more is to be seen.")
    state = models.CharField(max_length=12, choices=NoticeState.choices, default=NoticeState.OPEN)
    raised_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=200, default="")
    updated_at = models.DateTimeField(
        help_text="When it was raised, acknowledged or resolved last."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="notice_once_per_key", fields=["project", "kind", "key"]),
            models.CheckConstraint(
                name="notice_state_follows_times",
                condition=Q(state="RESOLVED", resolved_at__isnull=False)
                | Q(state="ACKNOWLEDGED", resolved_at__isnull=True, acknowledged_at__isnull=False)
                | Q(state="OPEN", resolved_at__isnull=True, acknowledged_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(name="notice_newest_of_project", fields=["project", "-id"]),
            models.Index(name="notice_newest_of_state", fields=["project", "state", "-id"]),
            models.Index(name="notice_newest_of_kind", fields=["project", "kind", "state", "-id"]),
            # Few among many, and counted for each page that somebody opens.
            models.Index(name="notice_open", fields=["project"], condition=Q(state="OPEN")),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


class ChannelKind(models.TextChoices):
    EMAIL = "EMAIL", "e-mail"
    WEBHOOK = "WEBHOOK", "webhook"
    SLACK = "SLACK", "Slack"
    GITHUB_ISSUE = "GITHUB_ISSUE", "GitHub issue"


class Channel(models.Model):
    """A way on which a project's notices leave this server.

    `target` is an e-mail address or a URL, and may itself be a secret: only its host is shown.
    `failures` counts in a row; while it is paused nothing is tried on it.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="channels")
    kind = models.CharField(max_length=12, choices=ChannelKind.choices)
    name = models.CharField(max_length=50)
    target = models.CharField(max_length=2000, default="")
    secret = models.CharField(max_length=100, default="", help_text="Signs webhooks.")
    notice_kinds = models.JSONField(default=list, help_text="The kinds that it carries.")
    version = models.PositiveBigIntegerField(
        default=1, help_text="Rises with each change of a notice that it carries."
    )
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    paused_until = models.DateTimeField(null=True)
    last_error = models.TextField(default="")
    last_error_at = models.DateTimeField(null=True)
    last_sent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="channel_once_per_name", fields=["project", "name"]),
            models.UniqueConstraint(
                name="channel_one_issue_per_project",
                fields=["project"],
                condition=Q(kind="GITHUB_ISSUE", disabled_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"

    @property
    def place(self) -> str:
        """Return where it leads, as far as that may be shown."""
        if self.kind == ChannelKind.GITHUB_ISSUE:
            return self.project.name
        is_url = self.kind != ChannelKind.EMAIL
        return f"{urlsplit(self.target).hostname}/…" if is_url else self.target


class DeliveryState(models.TextChoices):
    """`DROPPED`: its channel was disabled before it was sent."""

    PENDING = "PENDING"
    SENT = "SENT"
    DROPPED = "DROPPED"


class Delivery(models.Model):
    """One notice on one channel: to be sent, or sent.

    `is_uncertain` says that an earlier try may have arrived: its answer was lost, or its sender died.
    """

    notice = models.ForeignKey(Notice, on_delete=models.PROTECT, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="deliveries")
    state = models.CharField(
        max_length=8, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    attempts = models.PositiveIntegerField(default=0)
    is_uncertain = models.BooleanField(default=False)
    next_attempt_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, help_text="One sender at a time.")
    last_error = models.TextField(default="")
    sent_at = models.DateTimeField(null=True)
    external_id = models.CharField(max_length=200, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="delivery_once_per_channel", fields=["notice", "channel"])
        ]
        indexes = [
            models.Index(
                name="delivery_due",
                fields=["channel", "next_attempt_at"],
                condition=Q(state="PENDING"),
            )
        ]

    def __str__(self) -> str:
        return f"notice {self.notice_id} on channel {self.channel_id}: {self.state}"


class FeedLink(models.Model):
    """A secret address under which a feed reader gets a person's feed of a project's notices.

    It opens what the person may see at that moment, and nothing else.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="feed_link_one_in_use",
                fields=["user", "project"],
                condition=Q(revoked_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"of {self.user_id} for {self.project_id}"
