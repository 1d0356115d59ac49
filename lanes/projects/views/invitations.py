"""Pages: an invitation, for whoever holds its link."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from lanes.projects.forms import NewPersonForm
from lanes.projects.models import Invitation, Membership
from lanes.projects.operations import invitations as operations
from lanes.projects.operations import people, sign_in
from lanes.projects.operations.invitations import UnusableInvitationError
from lanes.projects.operations.people import InvalidPersonError
from lanes.projects.queries import invitations, tokens
from lanes.projects.views.sign_in import MODEL_BACKEND, with_github


@sensitive_variables("secret")
@never_cache
@require_safe
def invitation_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Keep in the session which invitation was followed, so that no later address holds its secret."""
    digest = tokens.secret_digest(secret)
    if invitations.usable_invitation(digest, at=timezone.now()) is None:
        raise UnusableInvitationError
    request.session[invitations.FOLLOWED] = digest
    return redirect("invitation")


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest) -> HttpResponse:
    """Show what the followed invitation offers; accept it, in a new account where nobody is signed in."""
    found = invitations.followed_invitation(request, at=timezone.now())
    if found is None:
        raise UnusableInvitationError
    if request.method != "POST":
        return _page(request, found, NewPersonForm(label_suffix=""))
    if isinstance(request.user, User):
        accepted = operations.accept_invitation(found.digest, request.user, at=timezone.now())
        return _done(request, accepted)
    form = NewPersonForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, found, form, status=422)
    try:
        accepted = people.create_invited_person(
            found.digest,
            username=form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            at=timezone.now(),
        )
    except InvalidPersonError as error:
        form.add_error(error.field, error.detail)
        return _page(request, found, form, status=error.status)
    login(request, accepted.user, backend=MODEL_BACKEND)
    sign_in.record_sign_in(accepted.user, way="password", at=timezone.now())
    return _done(request, accepted)


def _done(request: HttpRequest, accepted: Membership) -> HttpResponse:
    request.session.pop(invitations.FOLLOWED, None)
    messages.success(request, f"You are {accepted.role.lower()} of {accepted.project.name} now.")
    return redirect("notices", accepted.project.name)


def _page(
    request: HttpRequest, found: Invitation, form: NewPersonForm, *, status: int = 200
) -> HttpResponse:
    context = {"invitation": found, "form": form}
    page = render(request, "lanes/projects/invitation.html", context, status=status)
    return with_github(page)
