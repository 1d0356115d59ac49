"""Who may speak: projects, members, tokens, CI identities, the audit of what they changed; notices."""

import secrets
import uuid
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.db.models import Q

from evalhub.protocol.identity import VerifiedSource


class Scope(models.TextChoices):
    """What a token may do. `project:admin` acts as a maintainer and includes the others."""

    PLAN_REGISTER = "plan:register"
    LANE_WRITE = "lane:write"
    READ = "read"
    DOCUMENT_WRITE = "document:write"
    PROJECT_ADMIN = "project:admin"


class Role(models.TextChoices):
    VIEWER = "VIEWER"
    TRIAGER = "TRIAGER"
    MAINTAINER = "MAINTAINER"


def new_salt() -> str:
    return secrets.token_hex(32)


class Project(models.Model):
    """A repository whose agent is evaluated."""

    name = models.CharField(max_length=165, unique=True, help_text="OWNER/NAME")
    repository_id = models.BigIntegerField(null=True, unique=True)
    default_branch = models.CharField(max_length=255)
    checks_for_unverified = models.BooleanField(default=False)
    salt = models.CharField(
        max_length=64, default=new_salt, help_text="Keys the fingerprints that lanes report."
    )
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's role in a project."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="membership_once_per_project", fields=["project", "user"])
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} of {self.project_id}"


class Token(models.Model):
    """A bearer token, kept as a digest. With `attempt` set it is a lane token for that attempt alone.

    With `source` set it came from a CI identity: a run token, or the lane token that one opened.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(
        max_length=12, help_text="Shown so that a person can tell tokens apart."
    )
    name = models.CharField(max_length=100)
    scopes = models.JSONField(default=list)
    attempt = models.CharField(max_length=64, null=True, db_index=True)  # noqa: DJ001 - null is "of no attempt"
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    publisher = models.ForeignKey(
        "TrustedPublisher",
        on_delete=models.PROTECT,
        null=True,
        # Looked for only when a publisher is removed; each upload would pay for the index.
        db_index=False,
        related_name="tokens",
    )
    source = models.JSONField(null=True, help_text="evalhub.protocol.identity.VerifiedSource.")

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"

    @property
    def verified_source(self) -> VerifiedSource | None:
        """Return what is known of the CI job that it was given to; None for all other tokens."""
        return None if self.source is None else VerifiedSource.model_validate(self.source)


class SignInLink(models.Model):
    """A link that signs one person in, once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"for {self.user_id} until {self.expires_at:%Y-%m-%d %H:%M}"


class AuditEntry(models.Model):
    """A change of state by a person or a token. Never edited; holds no secret.

    `project` is null for what belongs to none of them: a sign-in.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, related_name="audit")
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=300)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(name="audit_newest_of_project", fields=["project", "-at", "-id"])]
        constraints = [models.CheckConstraint(name="audit_names_its_actor", condition=~Q(actor=""))]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"


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


class TrustedPublisher(models.Model):
    """A workflow of a project's repository whose CI jobs may speak for the project.

    Ids decide, never names: a name can be given up and taken by somebody else.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="publishers")
    repository_id = models.BigIntegerField()
    repository_owner_id = models.BigIntegerField()
    workflow = models.CharField(max_length=200, help_text=".github/workflows/FILE of the caller.")
    reusable_workflow = models.CharField(
        max_length=500,
        default="",
        help_text="What the job is made of; empty: of `workflow` itself.",
    )
    environment = models.CharField(max_length=500, default="", help_text="Empty: any, or none.")
    refs = models.JSONField(default=list, help_text="Patterns; empty: every ref.")
    may_put_documents = models.BooleanField(
        default=False, help_text="Suite and policy, from the protected default branch."
    )
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="publisher_once_in_use",
                fields=["project", "workflow", "reusable_workflow", "environment"],
                condition=Q(removed_at__isnull=True),
            )
        ]
        indexes = [
            models.Index(
                name="publisher_of_repository",
                fields=["repository_id"],
                condition=Q(removed_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.workflow} of repository {self.repository_id}"


class IssuerKeys(models.Model):
    """The signing keys of an issuer as it last gave them, shared by all processes.

    While `asked_at` is later than `answered_at` somebody is asking, or died while asking.
    """

    issuer = models.CharField(max_length=500, unique=True)
    document = models.TextField(default="", help_text="The JWKS; empty before the first.")
    fetched_at = models.DateTimeField(null=True, help_text="Of what `document` was read.")
    asked_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    error = models.TextField(default="", help_text="Why the newest try gave no keys.")

    def __str__(self) -> str:
        return self.issuer


class UsedIdentity(models.Model):
    """An identity token that was exchanged and cannot be again; kept until it has expired."""

    digest = models.CharField(max_length=64, unique=True, help_text="Of issuer and jti.")
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.digest[:12]


class SpeakerRefusal(models.Model):
    """Somebody tried to speak for a project and was refused. The oldest make room for new ones.

    `claims` are what was said of oneself; only with `is_signed` did the issuer vouch for them.
    """

    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, related_name="refusals"
    )
    at = models.DateTimeField()
    code = models.CharField(max_length=60)
    detail = models.TextField()
    is_signed = models.BooleanField()
    address = models.CharField(max_length=64)
    claims = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(name="refusal_newest_of_project", fields=["project", "is_signed", "-id"])
        ]

    def __str__(self) -> str:
        return f"{self.code} at {self.at:%Y-%m-%d %H:%M}"


class RequestCount(models.Model):
    """How often somebody asked since `began_at`, for limits that all web processes share."""

    key = models.CharField(max_length=100, unique=True)
    began_at = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.key}: {self.count}"
