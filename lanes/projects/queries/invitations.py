"""Invitations: those that wait, and the one of a link."""

from datetime import datetime

from django.db.models import QuerySet
from django.http import HttpRequest

from evalhub.web.errors import NotFoundError
from lanes.projects.models import Invitation, Project

FOLLOWED = "invitation"
"""The key in a session of the digest of the invitation that was followed in it."""


def followed_invitation(request: HttpRequest, *, at: datetime) -> Invitation | None:
    """Return the invitation whose link was followed in this session, if it can still be accepted."""
    digest = request.session.get(FOLLOWED)
    return usable_invitation(digest, at=at) if isinstance(digest, str) else None


def usable_invitation(digest: str, *, at: datetime) -> Invitation | None:
    """Return the invitation whose secret has this digest, if it can still be accepted."""
    return _waiting(at).filter(digest=digest).first()


def waiting_invitations(project: Project, *, at: datetime) -> QuerySet[Invitation]:
    """Return the invitations of a project that can still be accepted, newest first."""
    return _waiting(at).filter(project=project).order_by("-pk")


def invitation_numbered(project: Project, number: int) -> Invitation:
    """Return an invitation of a project.

    Raises:
        NotFoundError: if the project has none of that number.
    """
    found = Invitation.objects.select_related("project").filter(project=project, pk=number).first()
    if found is None:
        raise NotFoundError(f"Project {project.name} has no invitation {number}.")
    return found


def _waiting(at: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.select_related("project").filter(
        accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=at
    )
