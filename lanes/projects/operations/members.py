"""Change and end people's roles in a project, so that somebody is left who can."""

from datetime import datetime

from django.db import transaction

from evalhub.web.errors import DomainError
from lanes.projects.models import Membership, Project, Role
from lanes.projects.operations import audit


class LastMaintainerError(DomainError):
    status = 409
    code = "last-maintainer"
    fix = "Make somebody else a maintainer first."


@transaction.atomic
def change_role(membership: Membership, role: Role, *, actor: str, at: datetime) -> None:
    """Give a member another role; the one that they have changes nothing.

    Raises:
        LastMaintainerError: if no maintainer would be left.
    """
    current = _locked(membership)
    before = Role(current.role)
    if before == role:
        return
    _require_another_maintainer(current)
    current.role = role
    current.save(update_fields=["role"])
    _record(current, "member.role", before=before, after=role, actor=actor, at=at)


@transaction.atomic
def remove_member(membership: Membership, *, actor: str, at: datetime) -> None:
    """End a person's membership: with the next request they are a stranger.

    Raises:
        LastMaintainerError: if no maintainer would be left.
    """
    current = _locked(membership)
    _require_another_maintainer(current)
    _record(current, "member.remove", before=Role(current.role), after=None, actor=actor, at=at)
    current.delete()


def _locked(membership: Membership) -> Membership:
    # Two maintainers who remove each other take turns, and the second is refused.
    Project.objects.select_for_update(no_key=True).get(pk=membership.project_id)
    return Membership.objects.select_related("project", "user").get(pk=membership.pk)


def _require_another_maintainer(membership: Membership) -> None:
    if membership.role != Role.MAINTAINER:
        return
    others = Membership.objects.filter(
        project=membership.project, role=Role.MAINTAINER, user__is_active=True
    ).exclude(pk=membership.pk)
    if not others.exists():
        name = membership.user.get_username()
        raise LastMaintainerError(f"{name} is the last maintainer of {membership.project.name}.")


def _record(
    membership: Membership,
    action: str,
    *,
    before: Role | None,
    after: Role | None,
    actor: str,
    at: datetime,
) -> None:
    audit.record_audit(
        membership.project,
        actor=actor,
        action=action,
        subject=membership.user.get_username(),
        before=before,
        after=after,
        at=at,
    )
