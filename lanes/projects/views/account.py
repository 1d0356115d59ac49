"""Page: one's own account: password, GitHub, all sessions, roles."""

from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.access import signed_in
from evalhub.web.client_address import client_address
from lanes.projects.forms import PasswordForm, SignOutForm
from lanes.projects.operations import people, sign_in
from lanes.projects.operations.people import InvalidPersonError
from lanes.projects.queries import actors, members
from lanes.projects.views.sign_in import with_github


@sensitive_post_parameters("old", "password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: HttpRequest) -> HttpResponse:
    """Show one's account; change the password, which ends all other sessions."""
    user = actors.person_of(request)
    if request.method != "POST":
        return _page(request, PasswordForm(label_suffix=""), SignOutForm(label_suffix=""))
    form = PasswordForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, form, SignOutForm(label_suffix=""), status=422)
    _count_try(request, user)
    try:
        people.change_password(
            user,
            old=form.cleaned_data["old"],
            new=form.cleaned_data["password"],
            at=timezone.now(),
        )
    except InvalidPersonError as error:
        form.add_error(error.field, error.detail)
        return _page(request, form, SignOutForm(label_suffix=""), status=error.status)
    update_session_auth_hash(request, user)
    messages.success(request, "Your password is changed, and your other sessions are ended.")
    return redirect("account")


@sensitive_post_parameters("old")
@require_POST
@signed_in
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    """End all sessions of the person, this one too."""
    user = actors.person_of(request)
    form = SignOutForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, PasswordForm(label_suffix=""), form, status=422)
    _count_try(request, user)
    try:
        people.sign_out_everywhere(user, password=form.cleaned_data["old"], at=timezone.now())
    except InvalidPersonError as error:
        form.add_error(error.field, error.detail)
        return _page(request, PasswordForm(label_suffix=""), form, status=error.status)
    logout(request)
    messages.success(request, "All your sessions are ended.")
    return redirect("sign-in")


def _count_try(request: HttpRequest, user: User) -> None:
    # Whoever finds an open session must not find out its password here.
    sign_in.count_try(user.get_username(), address=client_address(request), at=timezone.now())


def _page(
    request: HttpRequest, form: PasswordForm, sign_out_form: SignOutForm, *, status: int = 200
) -> HttpResponse:
    user = actors.person_of(request)
    context = {
        "form": form,
        "sign_out_form": sign_out_form,
        "has_password": user.has_usable_password(),
        "memberships": members.memberships_by(user),
    }
    return with_github(render(request, "lanes/projects/account.html", context, status=status))
