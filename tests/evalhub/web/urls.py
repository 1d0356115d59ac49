"""The real addresses, and beside them views that fail in every way that an answer can fail."""

import psycopg
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
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
from evalhub.web.middleware import GetResponse

handler400 = getattr(real, "handler400", None)
handler403 = getattr(real, "handler403", None)
handler404 = real.handler404
handler500 = real.handler500


class TeapotError(DomainError):
    status = 418
    code = "teapot"
    fix = "Ask a kettle."


def disk_full(sentence: str) -> OperationalError:
    """Return the error of a PostgreSQL without room as Django raises it."""
    error = OperationalError(sentence)
    error.__cause__ = psycopg.errors.DiskFull(sentence)
    return error


FAILURES: dict[str, Exception] = {
    "domain": TeapotError("This is a teapot.", faults=[Fault("/pot", '"tea"', "coffee")]),
    "document": DocumentError([Fault("/a", "1", "2"), Fault("/b", "absent", "this field")]),
    "absent": Http404("There is no such thing."),
    "throttled": exceptions.Throttled(wait=30),
    "unparseable": exceptions.ParseError("not JSON"),
    "unforeseen": RuntimeError("a fault of ours, with a secret in it"),
    "forbidden": PermissionDenied("no"),
    "unreachable": OperationalError("connection to server at secret-host failed"),
    "disconnected": InterfaceError("the connection to secret-host is closed"),
    "full": disk_full("could not extend file at secret-path"),
    "cut": UnreadablePostError("Resource temporarily unavailable"),
    "suspicious": SuspiciousOperation("no"),
}


class FailingMiddleware:
    """Fails as a session does that is saved after its view, when the database has gone meanwhile."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        raise FAILURES["unreachable"]


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
