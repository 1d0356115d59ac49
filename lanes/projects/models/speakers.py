"""Projects and who may speak in them: members, tokens, one-time links; the audit of what they changed."""

import secrets

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
    made_by = models.CharField(
        max_length=200, default="", db_default="", help_text="As the audit names who it was."
    )

    class Meta:
        indexes = [
            models.Index(
                # Lane and run tokens are many, and nobody lists them.
                name="token_static_of_project",
                fields=["project", "-id"],
                condition=Q(attempt__isnull=True, publisher__isnull=True),
            )
        ]

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
