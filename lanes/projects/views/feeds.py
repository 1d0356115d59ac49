"""The Atom feed of a project's notices, and the secret address under which a feed reader gets it."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.http import http_date
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from evalhub.web.access import signed_in
from evalhub.web.parameters import whole_number
from lanes.projects import presentation
from lanes.projects.authentication import UnauthenticatedError, checked_token, token_of
from lanes.projects.models import Project, Role, Scope
from lanes.projects.operations import feeds as operations
from lanes.projects.queries import feeds, members, notices

PER_PAGE = 50


@require_safe
def feed(request: HttpRequest, project: str) -> HttpResponse:
    """Answer with the newest notices as Atom: to a session, a token, or a secret address."""
    found = _project_for(request, project)
    rows = notices.notices_of(found, before=whole_number(request, "before"), limit=PER_PAGE + 1)
    following = rows[PER_PAGE - 1].pk if len(rows) > PER_PAGE else None
    rows = rows[:PER_PAGE]
    etag = presentation.feed_etag(rows, next_before=following)
    changed = int(presentation.updated_at(found, rows).timestamp())
    response = HttpResponse(
        presentation.feed(found, rows, next_before=following),
        content_type="application/atom+xml; charset=utf-8",
        headers={
            "Cache-Control": "private, no-cache",
            "ETag": etag,
            "Last-Modified": http_date(changed),
        },
    )
    patch_vary_headers(response, ("Cookie", "Authorization"))
    return get_conditional_response(request, etag, changed, response) or response


@sensitive_variables("secret")
@never_cache
@require_POST
@signed_in
def make_link(request: HttpRequest, project: str) -> HttpResponse:
    """Make a secret address and show it, this once."""
    found = members.project_for(request.user, project, Role.VIEWER)
    secret = operations.make_feed_link(_person(request), found, at=timezone.now())
    address = f"{settings.PUBLIC_URL}{reverse('notice-feed', args=[project])}?key={secret}"
    context = {"project": found, "address": address}
    # Answered at once instead of after a redirect, so that the secret is kept nowhere on the way.
    return render(request, "lanes/projects/feed_link.html", context)


@require_POST
@signed_in
def revoke_link(request: HttpRequest, project: str) -> HttpResponse:
    """End the reader's secret address."""
    found = members.project_for(request.user, project, Role.VIEWER)
    operations.revoke_feed_link(_person(request), found, at=timezone.now())
    messages.success(request, "Your secret address of the feed works no more.")
    return redirect("notices", project)


def _project_for(request: HttpRequest, name: str) -> Project:
    if "Authorization" in request.headers:
        return checked_token(token_of(request), Scope.READ, project=name).project
    secret = request.GET.get("key")
    reader = feeds.reader_with_secret(secret, name) if secret else None
    if reader is not None:
        return members.project_for(reader, name, Role.VIEWER)
    if secret or not request.user.is_authenticated:
        raise UnauthenticatedError(
            "The feed is for members of the project, and its secret address may have been revoked.",
            fix="Sign in, make a new secret address on the project's page of notices, or send a token"
            " with the scope read in the header `Authorization: Bearer …`.",
        )
    return members.project_for(request.user, name, Role.VIEWER)


def _person(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise UnauthenticatedError("Nobody is signed in.")
    return request.user
