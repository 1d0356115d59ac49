"""Pages: the notices of a project, one of them, and its acknowledgement."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from evalhub.web.access import signed_in
from evalhub.web.parameters import BadParameterError, query_with, whole_number
from lanes.projects import presentation
from lanes.projects.models import NoticeKind, NoticeState, Role
from lanes.projects.operations import notices as notice_operations
from lanes.projects.queries import actors, feeds, members, notices, tokens

PER_PAGE = 50


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """List the reader's projects with their open notices; where there is one, go there."""
    found = notices.projects_with_open_counts(request.user)
    if len(found) == 1:
        return redirect("notices", found[0].name)
    return render(request, "lanes/projects/notice_overview.html", {"projects": found})


@require_safe
@signed_in
def notice_list(request: HttpRequest, project: str) -> HttpResponse:
    """List a project's notices, the open ones first, or those of one state."""
    found = members.project_for(request.user, project, Role.VIEWER)
    kind, state = request.GET.get("kind", ""), request.GET.get("state", "")
    start = _start(request)
    page = notices.notice_page(
        found,
        state=NoticeState(state) if state in NoticeState else None,
        kind=NoticeKind(kind) if kind in NoticeKind else None,
        start=start,
        limit=PER_PAGE,
    )
    may_change = members.has_role(request.user, found, Role.MAINTAINER)
    context = {
        "project": found,
        "notices": page.notices,
        "next": _next(request, page.next),
        "is_first": start is None,
        "kinds": NoticeKind.values,
        "states": NoticeState.values,
        "kind": kind,
        "state": state,
        "may_change": may_change,
        "ending": tokens.ending_tokens_of(found, at=timezone.now()) if may_change else [],
        "feed_link": feeds.feed_links_in_use(request.user, found).first(),
    }
    return render(request, "lanes/projects/notice_list.html", context)


@require_safe
@signed_in
@vary_on_headers("HX-Request")
def notice(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """Show a notice and how it fared on each channel; for htmx only the latter."""
    found = notices.notice_numbered(members.project_for(request.user, project, Role.VIEWER), number)
    rows = presentation.delivery_rows(notices.deliveries_of(found), at=timezone.now())
    context = {
        "notice": found,
        "rows": rows,
        "is_moving": any(row.state == "moving" for row in rows),
        # Errors may name addresses, which belong to whoever keeps the channels.
        "may_see_errors": members.has_role(request.user, found.project, Role.MAINTAINER),
        "may_acknowledge": members.has_role(request.user, found.project, Role.TRIAGER),
    }
    is_part = request.headers.get("HX-Request") == "true"
    template = "_deliveries.html" if is_part else "notice_detail.html"
    return render(request, f"lanes/projects/{template}", context)


@require_POST
@signed_in
def acknowledge(request: HttpRequest, project: str, number: int) -> HttpResponse:
    """Note that the reader has taken notice, and show the notice again."""
    found = notices.notice_numbered(
        members.project_for(request.user, project, Role.TRIAGER), number
    )
    notice_operations.acknowledge_notice(found, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, "Acknowledged.")
    return redirect("notice", project, number)


def _start(request: HttpRequest) -> notices.Place | None:
    before, part = whole_number(request, "before"), request.GET.get("part", "open")
    if part not in {"open", "rest"}:
        raise BadParameterError(f"The parameter 'part' was {part[:40]!r}; it takes open or rest.")
    return None if before is None else notices.Place(part == "open", before)


def _next(request: HttpRequest, place: notices.Place | None) -> str | None:
    if place is None:
        return None
    return query_with(request, before=place.before, part="open" if place.is_open else "rest")
