"""Invite people into a project by a link that works once; the link's secret is not kept."""

import secrets
from datetime import datetime, timedelta
from email.utils import parseaddr
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from evalhub.web.errors import DomainError
from evalhub.web.transports import mail
from evalhub.web.transports.outcomes import Outcome
from lanes.projects.models import Invitation, Membership, Project, Role
from lanes.projects.operations import audit
from lanes.projects.queries import invitations, members, tokens


class UnusableInvitationError(DomainError):
    """One sentence for unknown, used, revoked and expired ones alike."""

    status = 410
    code = "invitation-unusable"
    fix = "Ask whoever invited you for a new one."

    def __init__(self) -> None:
        super().__init__("This invitation is unknown, was used or revoked, or is too old.")


class AlreadyMemberError(DomainError):
    status = 409
    code = "already-member"


class MadeInvitation(NamedTuple):
    """An invitation and its secret, which is not kept and cannot be shown again."""

    invitation: Invitation
    secret: str


@transaction.atomic
def invite(  # noqa: PLR0913 - what is offered to whom, and by whom
    project: Project,
    *,
    role: Role,
    guest: str,
    email: str,
    life: timedelta,
    actor: str,
    at: datetime,
) -> MadeInvitation:
    """Make an invitation into a project."""
    # The prefix tells a person, and a secret scanner, what was found.
    secret = f"evi_{secrets.token_urlsafe(32)}"
    invitation = Invitation.objects.create(
        project=project,
        role=role,
        guest=guest,
        email=email,
        digest=tokens.secret_digest(secret),
        made_by=actor[:200],
        created_at=at,
        expires_at=at + life,
    )
    after = {"role": role, "email": email, "expires_at": invitation.expires_at.isoformat()}
    _record(invitation, "invitation.make", actor=actor, at=at, after=after)
    return MadeInvitation(invitation, secret)


def send_invitation(invitation: Invitation, *, address: str) -> Outcome:
    """Send the link to where the invitation says. Speaks to the outside: not inside a transaction."""
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    project = invitation.project.name
    lines = [
        f"You are invited to {project} on evalhub, as {invitation.role.lower()}.",
        "",
        address,
        "",
        f"The link works once, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC.",
        "Whoever has it can use it: do not pass this letter on.",
    ]
    return mail.send(
        mail.Letter(
            to=invitation.email,
            subject=f"[{project}] You are invited",
            text="\n".join(lines) + "\n",
            message_id=f"<invitation.{invitation.pk}.{invitation.digest[:16]}@{domain}>",
        )
    )


@transaction.atomic
def revoke_invitation(invitation: Invitation, *, actor: str, at: datetime) -> bool:
    """End an invitation that nobody has accepted yet; return whether there was one to end."""
    unused = Invitation.objects.filter(
        pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True
    )
    if not unused.update(revoked_at=at):
        return False
    _record(invitation, "invitation.revoke", actor=actor, at=at)
    return True


@transaction.atomic
def accept_invitation(digest: str, user: User, *, at: datetime) -> Membership:
    """Use up the invitation and make the person a member in its role.

    Raises:
        UnusableInvitationError: if it is unknown, used, revoked or too old.
        AlreadyMemberError: if the person has that role or a larger one; the invitation stays good.
    """
    invitation = invitations.usable_invitation(digest, at=at)
    # Two people with one link: the row count tells who was first.
    if invitation is None or not Invitation.objects.filter(
        pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True
    ).update(accepted_at=at, accepted_by=user):
        raise UnusableInvitationError
    project, role = invitation.project, Role(invitation.role)
    before = members.role_of(user, project)
    if members.has_role(user, project, role):
        raise AlreadyMemberError(
            f"You are {str(before).lower()} of {project.name}: the invitation would add nothing.",
            fix="Sign out, if it was meant for another account of yours.",
        )
    membership, _ = Membership.objects.update_or_create(
        project=project, user=user, defaults={"role": role}
    )
    actor = f"user:{user.get_username()}"
    _record(invitation, "invitation.accept", actor=actor, at=at, before=before, after=role)
    return membership


def _record(
    invitation: Invitation,
    action: str,
    *,
    actor: str,
    at: datetime,
    before: object = None,
    after: object = None,
) -> None:
    audit.record_audit(
        invitation.project,
        actor=actor,
        action=action,
        subject=f"invitation {invitation.pk} for {invitation.guest}",
        before=before,
        after=after,
        at=at,
    )
