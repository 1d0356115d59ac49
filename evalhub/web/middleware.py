"""What every answer carries, and how a foreseen error becomes a page."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from evalhub.web.errors import as_domain_error
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
