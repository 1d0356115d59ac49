"""Answers that belong to no room: health, and errors outside a view."""

import logging
import sys

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from evalhub.protocol.messages import Problem
from evalhub.tasks import trail
from evalhub.web.errors import (
    DatabaseUnavailableError,
    DomainError,
    ForbiddenError,
    NotFoundError,
    as_domain_error,
    problem,
)

logger = logging.getLogger(__name__)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that the process answers; touches nothing else."""
    return HttpResponse("ok\n", content_type="text/plain")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django itself refuses to look at (a wrong host, a broken form)."""
    return error_response(request, DomainError("The request is not one that this server answers."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself forbids."""
    return error_response(request, ForbiddenError("This is not yours to see or do."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown address as the API or as a page, whichever was asked."""
    return error_response(request, NotFoundError("There is nothing at this address."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a fault of ours without a traceback; the log has it.

    What was foreseen ends here too where it is raised outside a view, by a session that is saved.
    """
    raised = sys.exception()
    foreseen = as_domain_error(raised) if isinstance(raised, Exception) else None
    return error_response(request, foreseen or _unforeseen())


def _unforeseen() -> DomainError:
    error = DomainError(
        "The server failed on this request; its log has the details.",
        fix=f"Try again; if it happens again, tell whoever runs this server{_quoting_request()}.",
    )
    error.status, error.code = 500, "server-error"
    return error


def _quoting_request() -> str:
    request_id = trail.current().get("request_id")
    return f" and quote request {request_id}" if request_id else ""


def error_response(request: HttpRequest, error: DomainError) -> HttpResponse:
    """Render a foreseen error: problem+json below /api/, a page elsewhere, a note for htmx.

    The note lands in the page's alert region, and the rest of the page stays as it was.
    """
    response = _rendered(request, error)
    if error.retry_after_seconds is not None:
        response["Retry-After"] = str(error.retry_after_seconds)
    return response


def _rendered(request: HttpRequest, error: DomainError) -> HttpResponse:
    body = problem(error)
    if request.path.startswith("/api/"):
        return JsonResponse(
            body.model_dump(mode="json"),
            status=error.status,
            content_type="application/problem+json",
        )
    if request.headers.get("HX-Request") == "true":
        note = render_to_string("_alert.html", {"problem": body})
        response = HttpResponse(note, status=error.status)
        response["HX-Retarget"], response["HX-Reswap"] = "#alert", "innerHTML"
        return response
    return HttpResponse(_page(request, error, body), status=error.status)


def _page(request: HttpRequest, error: DomainError, body: Problem) -> str:
    if not isinstance(error, DatabaseUnavailableError):
        try:
            return render_to_string("error.html", {"problem": body}, request=request)
        except (DatabaseError, InterfaceError) as unreadable:
            logger.warning("error page made without its frame: %s", unreadable)
    # With the request, the page asks the database who is signed in.
    return render_to_string("error.html", {"problem": body})
