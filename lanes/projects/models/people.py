"""Invitations of people into a project."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from lanes.projects.models.speakers import Project, Role


class Invitation(models.Model):
    """A link that makes whoever follows it first, signed in, a member; kept as a digest."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role.choices)
    guest = models.CharField(max_length=200, help_text="Whom the maintainer meant, in words.")
    email = models.EmailField(default="", help_text="Where the link was sent; empty: nowhere.")
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.CharField(max_length=200, help_text="As the audit names who it was.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="invitation_has_one_end",
                condition=Q(revoked_at__isnull=True) | Q(accepted_at__isnull=True),
            ),
            models.CheckConstraint(
                name="invitation_accepted_by_somebody",
                condition=Q(accepted_at__isnull=True) | Q(accepted_by__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.project_id} for {self.guest}"
