"""Pages: a project's trusted publishers and who was refused, for its maintainers."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.access import signed_in
from lanes.projects.forms import PublisherForm
from lanes.projects.models import Project, Role
from lanes.projects.operations import publishers as operations
from lanes.projects.operations.publishers import InvalidPublisherError, PublisherConflictError
from lanes.projects.queries import actors, members, publishers

_MOST_REFUSALS = 50


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def publisher_list(request: HttpRequest, project: str) -> HttpResponse:
    """List the workflows that a project trusts, and who was refused; trust another."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    if request.method != "POST":
        form = PublisherForm(initial={"repository_id": found.repository_id}, label_suffix="")
        return _page(request, found, form)
    form = PublisherForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _page(request, found, form, status=422)
    try:
        kept = operations.trust_publisher(
            found, form.settings, actor=actors.actor_of(request), at=timezone.now()
        )
    except (InvalidPublisherError, PublisherConflictError) as error:
        form.add_error(None, error.detail)
        return _page(request, found, form, status=error.status)
    messages.success(request, f"Jobs of {kept.publisher.workflow} may speak for the project.")
    return redirect("publishers", project)


@require_POST
@signed_in
def remove_publisher(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """Trust a workflow no longer."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    publisher = publishers.publisher_numbered(found, number)
    operations.remove_publisher(publisher, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, f"Jobs of {publisher.workflow} are trusted no longer.")
    return redirect("publishers", project)


def _page(
    request: HttpRequest, project: Project, form: PublisherForm, *, status: int = 200
) -> HttpResponse:
    context = {
        "project": project,
        "publishers": publishers.publishers_of(project),
        "refusals": publishers.refusals_of(project)[:_MOST_REFUSALS],
        "form": form,
    }
    return render(request, "lanes/projects/publisher_list.html", context, status=status)
