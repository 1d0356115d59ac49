"""Errors that a user can mend, and their one rendering for the API (RFC 9457)."""

import logging
import sqlite3
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError

# Nothing from rest_framework.views: it loads the authentication class, which raises these errors.
from rest_framework import exceptions
from rest_framework.response import Response

from evalhub.protocol.faults import DocumentError, Fault
from evalhub.protocol.messages import FieldFault, Problem
from evalhub.tasks import trail

logger = logging.getLogger(__name__)


class DomainError(Exception):
    """Something that was foreseen: one sentence for the user, and how to mend it.

    A subclass sets `status` and `code` and lives beside the operation that raises it.
    """

    status: int = 400
    code: str = "bad-request"
    fix: str | None = None
    retry_after_seconds: int | None = None

    def __init__(
        self, detail: str, *, fix: str | None = None, faults: Sequence[Fault | FieldFault] = ()
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix or self.fix
        self.faults = [_field_fault(fault) for fault in faults]


class InvalidDocumentError(DomainError):
    """A body or file is not the document that it should be."""

    status = 422
    code = "invalid-document"

    @classmethod
    def of(cls, error: DocumentError, *, what: str) -> "InvalidDocumentError":
        """Return the error for a document of the kind `what` ("plan", "policy")."""
        return cls(f"The {what} is not valid: {error}", faults=error.faults)


class NotFoundError(DomainError):
    status = 404
    code = "not-found"


class LengthRequiredError(DomainError):
    status = 411
    code = "length-required"
    fix = "Send the header Content-Length; chunked transfer is not taken."


class ForbiddenError(DomainError):
    status = 403
    code = "forbidden"


class DatabaseUnavailableError(DomainError):
    """The database is busy or away; nothing of the request was kept."""

    status = 503
    code = "database-unavailable"
    fix = "Send the same request again in a few seconds."
    retry_after_seconds = 5


class DatabaseFullError(DatabaseUnavailableError):
    status = 507
    code = "database-full"
    fix = "Whoever runs the server must make room; then send the same request again."
    retry_after_seconds = 10


class BodyIncompleteError(DomainError):
    """Whoever sent the request stopped in the middle of its body, or was cut off."""

    status = 408
    code = "body-incomplete"
    fix = "Send the same request again, without a pause in its body."


def problem(error: DomainError) -> Problem:
    """Return the RFC 9457 body of an error; with a request's id where the log says more."""
    is_ours = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return Problem(
        type=f"/errors/{error.code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        code=error.code,
        detail=error.detail,
        fix=error.fix,
        errors=error.faults,
        request_id=trail.current().get("request_id") if is_ours else None,
    )


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every foreseen error as problem+json; others stay a 500."""
    domain = as_domain_error(error)
    if domain is None:
        return None
    response = Response(
        problem(domain).model_dump(mode="json"),
        status=domain.status,
        content_type="application/problem+json",
    )
    if domain.status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    if domain.retry_after_seconds is not None:
        response["Retry-After"] = str(domain.retry_after_seconds)
    return response


def as_domain_error(error: Exception) -> DomainError | None:
    """Return the domain error for what Django and DRF raise themselves; None if unforeseen."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, DocumentError):
        return InvalidDocumentError.of(error, what="body")
    if isinstance(error, Http404):
        return NotFoundError(str(error) or "There is nothing at this address.")
    if isinstance(error, RequestDataTooBig):
        return _named(413, "too-large", "The body is larger than the server reads at once.")
    if isinstance(error, exceptions.APIException):
        return _of_rest_framework(error)
    return _of_connection(error)


def _of_connection(error: Exception) -> DomainError | None:
    """Return the error for what the caller's connection, or the one to the database, has come to."""
    if isinstance(error, UnreadablePostError):
        return BodyIncompleteError("The body of the request did not arrive whole in time.")
    if isinstance(error, OperationalError | InterfaceError):
        return _of_database(error)
    return None


def _of_rest_framework(error: exceptions.APIException) -> DomainError:
    code = str(error.default_code).replace("_", "-")
    domain = _named(error.status_code, code, _sentence(error.detail))
    wait = getattr(error, "wait", None)
    if wait is not None:
        domain.retry_after_seconds = int(wait) + 1
    return domain


def _of_database(error: OperationalError | InterfaceError) -> DomainError | None:
    if not _passes(error):
        return None
    # What the driver says names hosts and files: it is the operator's, not the caller's.
    logger.warning("the database did not answer: %s", str(error).strip())
    if _is_for_room(error):
        return DatabaseFullError(
            "The disk of the database is full; nothing of the request was kept."
        )
    return DatabaseUnavailableError(
        "The database did not take the request in time; nothing of it was kept."
    )


# SQLite calls every failure operational, an absent table too; these are busy, full or out of reach.
_PASSING_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
}
_POSTGRES_DISK_FULL = "53100"


def _passes(error: OperationalError | InterfaceError) -> bool:
    """Return whether the same request may succeed later; PostgreSQL has no others of these classes."""
    cause = error.__cause__
    return not isinstance(cause, sqlite3.Error) or _sqlite_code(cause) in _PASSING_SQLITE


def _is_for_room(error: OperationalError | InterfaceError) -> bool:
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _sqlite_code(cause) == sqlite3.SQLITE_FULL
    return getattr(cause, "sqlstate", None) == _POSTGRES_DISK_FULL


def _sqlite_code(error: sqlite3.Error) -> int:
    # The upper bytes say more of the same code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _field_fault(fault: Fault | FieldFault) -> FieldFault:
    if isinstance(fault, FieldFault):
        return fault
    return FieldFault(pointer=fault.pointer, got=fault.got, expected=fault.expected)


def _named(status: int, code: str, detail: str) -> DomainError:
    error = DomainError(detail)
    error.status, error.code = status, code
    return error


def _sentence(detail: object) -> str:
    text = str(detail)
    return text if text.endswith(".") else f"{text}."
