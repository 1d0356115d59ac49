"""Pages: who changed what, in a project for its maintainers, in the instance for its administrators."""

from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from evalhub.web.access import signed_in
from evalhub.web.downloads import streamed_attachment
from evalhub.web.parameters import BadParameterError, one_of, query_with, whole_number
from lanes.projects.forms import AuditForm
from lanes.projects.models import Project, Role
from lanes.projects.operations import audit_export
from lanes.projects.queries import actors, audit, members
from lanes.projects.queries.audit import Filter

PER_PAGE = 50
_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


@never_cache
@require_safe
@signed_in
def project_audit(request: HttpRequest, project: str) -> HttpResponse:
    """Show the audit of a project, newest first."""
    return _page(request, members.project_for(request.user, project, Role.MAINTAINER))


@never_cache
@require_safe
@signed_in
def instance_audit(request: HttpRequest) -> HttpResponse:
    """Show what belongs to no project: sign-ins, accounts."""
    members.require_administrator(request.user)
    return _page(request, None)


@require_safe
@signed_in
def project_audit_file(request: HttpRequest, project: str) -> StreamingHttpResponse:
    """Give the wanted entries of a project as a file."""
    return _file(request, members.project_for(request.user, project, Role.MAINTAINER))


@require_safe
@signed_in
def instance_audit_file(request: HttpRequest) -> StreamingHttpResponse:
    """Give the wanted entries of the instance as a file."""
    members.require_administrator(request.user)
    return _file(request, None)


def _page(request: HttpRequest, project: Project | None) -> HttpResponse:
    form = AuditForm(request.GET, label_suffix="")
    wanted = _wanted(form)
    before = whole_number(request, "before")
    page = audit.audit_page(project, wanted, before=before, limit=PER_PAGE)
    context = {
        "project": project,
        "entries": page.entries,
        "form": form,
        "is_filtered": any(wanted),
        "is_first": before is None,
        "next": query_with(request, before=page.next) if page.next is not None else None,
        "query": _filter_of(request).urlencode(),
    }
    return render(request, "lanes/projects/audit.html", context)


def _file(request: HttpRequest, project: Project | None) -> StreamingHttpResponse:
    form = one_of(request, "form", "jsonl", among=tuple(_TYPES))
    wanted = _wanted(AuditForm(request.GET))
    pieces = audit_export.export_audit(
        project,
        wanted,
        "csv" if form == "csv" else "jsonl",
        actor=actors.actor_of(request),
        at=timezone.now(),
    )
    whose = project.name.replace("/", "-") if project is not None else "instance"
    return streamed_attachment(pieces, name=f"audit-{whose}.{form}", content_type=_TYPES[form])


def _wanted(form: AuditForm) -> Filter:
    if not form.is_valid():
        field, sentences = next(iter(form.errors.items()))
        raise BadParameterError(f"The parameter {field!r}: {' '.join(map(str, sentences))}")
    return Filter(**form.cleaned_data)


def _filter_of(request: HttpRequest) -> QueryDict:
    query = request.GET.copy()
    query.pop("before", None)
    return query
