"""Pages: the tokens of a project, for its maintainers."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.access import signed_in
from lanes.projects import presentation
from lanes.projects.forms import TokenForm
from lanes.projects.models import Project, Role
from lanes.projects.operations import static_tokens
from lanes.projects.operations import tokens as operations
from lanes.projects.operations.static_tokens import InvalidTokenError, TooManyTokensError
from lanes.projects.queries import actors, members, tokens

_MOST_LISTED = 200


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def token_list(request: HttpRequest, project: str) -> HttpResponse:
    """List the tokens that people made; make another and show its secret, once."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    if request.method != "POST":
        form = TokenForm(initial={"days": static_tokens.default_days()}, label_suffix="")
        return _page(request, found, form)
    form = TokenForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, found, form, status=422)
    try:
        made = static_tokens.make_token(
            found, form.settings, actor=actors.actor_of(request), at=timezone.now()
        )
    except (InvalidTokenError, TooManyTokensError) as error:
        form.add_error(None, error.detail)
        return _page(request, found, form, status=error.status)
    context = {"project": found, "token": made.token, "secret": made.secret}
    return render(request, "lanes/projects/token_secret.html", context)


@require_POST
@signed_in
def revoke_token(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """End a token at once."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    token = tokens.static_token_numbered(found, number)
    operations.revoke_token(token, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("tokens", project)


def _page(
    request: HttpRequest, project: Project, form: TokenForm, *, status: int = 200
) -> HttpResponse:
    at = timezone.now()
    listed = tokens.static_tokens_of(project)[:_MOST_LISTED]
    context = {
        "project": project,
        "tokens": [presentation.told_token(token, at=at) for token in listed],
        "ending": tokens.ending_tokens_of(project, at=at),
        "form": form,
    }
    return render(request, "lanes/projects/token_list.html", context, status=status)
