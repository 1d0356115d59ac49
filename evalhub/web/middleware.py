"""What every answer carries, and how a foreseen error becomes a page."""

from collections.abc import Callable
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse

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
