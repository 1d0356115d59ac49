"""What every answer carries and leaves in the log, and how a foreseen error becomes a page."""

import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse

from evalhub.tasks import trail
from evalhub.web import logs
from evalhub.web.errors import LengthRequiredError, NotFoundError, as_domain_error
from evalhub.web.views import error_response

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
GetResponse = Callable[[HttpRequest], HttpResponse]
_SOUND_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_CLAIM = 200
access_log = logging.getLogger("evalhub.access")


class RequestTrailMiddleware:
    """Give each request an id that the answer, the log and the tasks it asks for carry.

    A proxy's own id is taken over if it is sound. Each answer leaves one line in the log.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        claimed = request.headers.get("X-Request-ID", "")
        request_id = claimed if _SOUND_REQUEST_ID.fullmatch(claimed) else uuid.uuid4().hex
        with trail.trail(request_id=request_id):
            response = self.get_response(request)
            response.headers["X-Request-ID"] = request_id
            _log_answer(request, response, seconds=time.perf_counter() - begun)
        return response

    def process_view(
        self, request: HttpRequest, view: object, args: object, kwargs: Mapping[str, Any]
    ) -> None:
        """Name the plan that the address names."""
        if "digest" in kwargs:
            logs.bind_plan(kwargs["digest"])


def _log_answer(request: HttpRequest, response: HttpResponse, *, seconds: float) -> None:
    said = {
        "method": request.method,
        # Without the query: what people search for is theirs.
        "path": request.path,
        "status": response.status_code,
        "duration_ms": round(seconds * 1000),
        "remote": request.META.get("REMOTE_ADDR", ""),
    }
    forwarded = request.headers.get("X-Forwarded-For", "")
    if forwarded:
        # A claim of whoever sent it, unless a proxy in front has replaced it.
        said["forwarded_for"] = forwarded[:_LONGEST_CLAIM]
    access_log.info("answered", extra=said)


class SoundRequestMiddleware:
    """Refuse what no view could answer rightly.

    The web server hands a chunked body on as an empty one, and no database holds a NUL character.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = request.path + unquote(request.META.get("QUERY_STRING", ""))
        if "\x00" in address:
            return error_response(request, NotFoundError("No address contains a NUL character."))
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            return error_response(request, LengthRequiredError("The body has no Content-Length."))
        return self.get_response(request)


class SecurityHeadersMiddleware:
    """Set a strict policy unless the view has set a stricter one (raw downloads do)."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Referrer-Policy", "same-origin")
        return response


class DomainErrorMiddleware:
    """Render the domain errors of page views; the API's are rendered by DRF's handler."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        error = as_domain_error(exception)
        return error_response(request, error) if error is not None else None
