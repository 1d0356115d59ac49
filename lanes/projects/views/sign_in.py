"""Pages: sign in by password or by one-time link, sign out."""

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.client_address import client_address
from evalhub.web.middleware import CONTENT_SECURITY_POLICY
from lanes.projects.forms import SignInForm
from lanes.projects.operations import sign_in as sign_in_operations
from lanes.projects.queries import sign_in as sign_in_queries

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign a person in by name and password, then go where they wanted to go."""
    destination = _destination(request)
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(destination)
        return _sign_in_page(request, SignInForm(label_suffix=""), destination, status=200)
    form = SignInForm(request.POST, label_suffix="")
    user = _user_of(request, form)
    if user is None:
        if not form.errors:
            # One sentence whether the name is unknown, the password wrong or the person disabled.
            form.add_error(None, "Name and password do not fit together.")
        return _sign_in_page(request, form, destination, status=422)
    # Gives the session a new key, so that one planted before is worth nothing.
    login(request, user)
    sign_in_operations.record_sign_in(user, way="password", at=timezone.now())
    return redirect(destination)


@sensitive_variables("secret")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Show a button, and sign in when it is pressed: a preview of the link must not burn it."""
    if request.method == "POST":
        user = sign_in_operations.sign_in_with_link(secret, at=timezone.now())
        login(request, user, backend=MODEL_BACKEND)
        return redirect(settings.LOGIN_REDIRECT_URL)
    is_usable = sign_in_queries.usable_link(secret, at=timezone.now()) is not None
    # The address is the secret, yet no stricter Referrer-Policy than the server's `same-origin`: with
    # `no-referrer` browsers send `Origin: null`, and the form would fail its CSRF check.
    return render(
        request,
        "lanes/projects/sign_in_link.html",
        {"is_usable": is_usable},
        status=200 if is_usable else 410,
    )


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    if isinstance(request.user, User):
        sign_in_operations.record_sign_out(request.user, at=timezone.now())
    logout(request)
    return redirect("sign-in")


def _user_of(request: HttpRequest, form: SignInForm) -> User | None:
    if not form.is_valid():
        return None
    username = form.cleaned_data["username"]
    sign_in_operations.count_try(username, address=client_address(request), at=timezone.now())
    # Hashes once, too, where there is nobody of that name.
    user = authenticate(request, username=username, password=form.cleaned_data["password"])
    return user if isinstance(user, User) else None


def _sign_in_page(
    request: HttpRequest, form: SignInForm, destination: str, *, status: int
) -> HttpResponse:
    context = {"form": form, "next": destination}
    return with_github(render(request, "lanes/projects/sign_in.html", context, status=status))


def with_github(page: HttpResponse) -> HttpResponse:
    """Let the forms of a page lead to GitHub, where people can sign in with it.

    Browsers hold the policy against the redirect that follows a form, too.
    """
    if settings.GITHUB_SIGN_IN:
        own = "form-action 'self'"
        page.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.replace(
            own, f"{own} {settings.GITHUB_URL}"
        )
    return page


def _destination(request: HttpRequest) -> str:
    """Return the local path that `next` names, else the start page."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)
