"""The real addresses, and beside them views that fail in every way that an answer can fail."""

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub import urls as real
from evalhub.protocol.faults import DocumentError, Fault
from evalhub.web.errors import DomainError

handler400 = getattr(real, "handler400", None)
handler403 = getattr(real, "handler403", None)
handler404 = real.handler404
handler500 = real.handler500


class TeapotError(DomainError):
    status = 418
    code = "teapot"
    fix = "Ask a kettle."


FAILURES: dict[str, Exception] = {
    "domain": TeapotError("This is a teapot.", faults=[Fault("/pot", '"tea"', "coffee")]),
    "document": DocumentError([Fault("/a", "1", "2"), Fault("/b", "absent", "this field")]),
    "absent": Http404("There is no such thing."),
    "throttled": exceptions.Throttled(wait=30),
    "unparseable": exceptions.ParseError("not JSON"),
    "unforeseen": RuntimeError("a fault of ours, with a secret in it"),
    "forbidden": PermissionDenied("no"),
    "unreachable": OperationalError("connection to server at secret-host failed"),
    "suspicious": SuspiciousOperation("no"),
}


class FailingEndpoint(APIView):
    """Raises the failure that the address names."""

    authentication_classes: list[type[BaseAuthentication]] = []
    permission_classes = [AllowAny]

    def get(self, request: Request, failure: str) -> Response:
        raise FAILURES[failure]


def failing_page(request: HttpRequest, failure: str) -> HttpResponse:
    """Raise the failure that the address names."""
    raise FAILURES[failure]


urlpatterns = [
    path("api/v1/failing/<str:failure>", FailingEndpoint.as_view()),
    path("failing/<str:failure>", failing_page),
    *real.urlpatterns,
]
