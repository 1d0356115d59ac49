"""Pages: the members of a project and its invitations, for its maintainers."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.access import signed_in
from evalhub.web.transports.outcomes import Arrived
from lanes.projects.forms import InvitationForm, RoleForm
from lanes.projects.models import Project, Role
from lanes.projects.operations import invitations as invitation_operations
from lanes.projects.operations import members as operations
from lanes.projects.queries import actors, invitations, members


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def member_list(request: HttpRequest, project: str) -> HttpResponse:
    """List a project's members and who is invited; invite somebody and show the link, this once."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    if request.method != "POST":
        return _page(request, found, InvitationForm(label_suffix=""))
    form = InvitationForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, found, form, status=422)
    made = invitation_operations.invite(
        found,
        role=Role(form.cleaned_data["role"]),
        guest=form.cleaned_data["guest"],
        email=form.cleaned_data["email"],
        life=timedelta(days=int(form.cleaned_data["days"])),
        actor=actors.actor_of(request),
        at=timezone.now(),
    )
    return _link_page(request, made)


@require_POST
@signed_in
def change_role(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """Give a member another role."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    membership = members.membership_numbered(found, number)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose one of the roles.")
        return redirect("members", project)
    role = Role(form.cleaned_data["role"])
    operations.change_role(membership, role, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, f"{membership.user.get_username()} is {role.lower()} now.")
    return _after(request, found)


@require_POST
@signed_in
def remove_member(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """End a membership."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    membership = members.membership_numbered(found, number)
    operations.remove_member(membership, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, f"{membership.user.get_username()} is no member any more.")
    return _after(request, found)


@require_POST
@signed_in
def revoke_invitation(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """End an invitation."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    invitation = invitations.invitation_numbered(found, number)
    is_ended = invitation_operations.revoke_invitation(
        invitation, actor=actors.actor_of(request), at=timezone.now()
    )
    said = "opens nothing any more" if is_ended else "had been used or revoked before"
    messages.success(request, f"The invitation of {invitation.guest} {said}.")
    return redirect("members", project)


def _after(request: HttpRequest, project: Project) -> HttpResponse:
    # Whoever has just given up the role cannot be shown the page.
    is_maintainer = members.has_role(request.user, project, Role.MAINTAINER)
    return redirect("members", project.name) if is_maintainer else redirect("home")


def _page(
    request: HttpRequest, project: Project, form: InvitationForm, *, status: int = 200
) -> HttpResponse:
    context = {
        "project": project,
        "memberships": members.memberships_of(project),
        "invitations": invitations.waiting_invitations(project, at=timezone.now()),
        "roles": Role.choices,
        "form": form,
    }
    return render(request, "lanes/projects/member_list.html", context, status=status)


def _link_page(request: HttpRequest, made: invitation_operations.MadeInvitation) -> HttpResponse:
    # Answered at once instead of after a redirect, so that the secret is kept nowhere on the way.
    address = settings.PUBLIC_URL + reverse("invitation-link", args=[made.secret])
    outcome = None
    if made.invitation.email and settings.EMAIL_HOST:
        outcome = invitation_operations.send_invitation(made.invitation, address=address)
    context = {
        "invitation": made.invitation,
        "address": address,
        "is_sent": isinstance(outcome, Arrived),
        "trouble": "" if outcome is None or isinstance(outcome, Arrived) else outcome.detail,
    }
    return render(request, "lanes/projects/invitation_made.html", context)
