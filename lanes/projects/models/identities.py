"""CI jobs: which are trusted, what their issuer signs with, who was refused, and who asks how often."""

from django.db import models
from django.db.models import Q

from lanes.projects.models.speakers import Project


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
