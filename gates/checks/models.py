"""What should be at GitHub, and what GitHub is known to have: checks, and the rolling issues."""

import uuid

from django.db import models

from lanes.projects.models import Channel, Project


class Check(models.Model):
    """The desired state of one check on one commit, and its delivery.

    `desired_version` rises with each change of the desired state; `sent_version` is the last one
    that GitHub confirmed. Equal means delivered. `status` and `conclusion` are GitHub's own words.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="checks")
    suite_name = models.CharField(max_length=64)
    head_sha = models.CharField(max_length=40)
    name = models.CharField(max_length=130)
    external_id = models.UUIDField(unique=True)
    status = models.CharField(max_length=12)
    conclusion = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null until completed
    title = models.CharField(max_length=300)
    summary = models.TextField()
    text = models.TextField()
    details_url = models.CharField(max_length=500)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    desired_version = models.PositiveBigIntegerField(default=1)
    sent_version = models.PositiveBigIntegerField(default=0)
    github_id = models.BigIntegerField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(
        null=True, help_text="Null: not before something changes."
    )
    claimed_until = models.DateTimeField(null=True, help_text="One sender at a time.")
    last_error = models.TextField(default="")
    desired_at = models.DateTimeField(help_text="When the desired state last changed.")
    undelivered_since = models.DateTimeField(
        null=True, help_text="When it first changed past what GitHub has; null once delivered."
    )
    looked_at = models.DateTimeField(help_text="When the commit's plans were last looked at.")
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="check_once_per_commit", fields=["project", "suite_name", "head_sha"]
            )
        ]
        indexes = [
            models.Index(name="check_due", fields=["next_attempt_at"]),
            models.Index(
                name="check_behind_at_github",
                fields=["undelivered_since"],
                condition=models.Q(sent_version__lt=models.F("desired_version")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} on {self.head_sha[:12]}"

    @property
    def is_delivered(self) -> bool:
        return self.sent_version == self.desired_version


class IssueFamily(models.TextChoices):
    """What one rolling issue is about."""

    NIGHTLY = "NIGHTLY", "nightly runs"
    BUDGET = "BUDGET", "judge budget"
    DRIFT = "DRIFT", "drift of simulators"
    TEST = "TEST", "tests of this channel"


class RollingIssue(models.Model):
    """The one issue of a project in which a family of notices is told.

    `uid` stands hidden in its text and finds it again; `number` is only where it was last seen.
    `shown_version` is the version of `channel` whose notices it shows.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="rolling_issues")
    family = models.CharField(max_length=8, choices=IssueFamily.choices)
    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    number = models.BigIntegerField(null=True)
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="+")
    shown_version = models.PositiveBigIntegerField(default=0)
    shown_digest = models.CharField(max_length=71, default="")
    claimed_until = models.DateTimeField(null=True, help_text="One sender at a time.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="rolling_issue_once_per_family", fields=["project", "family"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_family_display()} of {self.project_id}"
