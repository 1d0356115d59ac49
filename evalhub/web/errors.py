"""Errors that a user can mend, and their one rendering for the API (RFC 9457)."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404

# Nothing from rest_framework.views: it loads the authentication class, which raises these errors.
from rest_framework import exceptions
from rest_framework.response import Response

from evalhub.protocol.faults import DocumentError, Fault
from evalhub.protocol.messages import FieldFault, Problem

logger = logging.getLogger(__name__)


class DomainError(Exception):
    """Something that was foreseen: one sentence for the user, and how to mend it.

    A subclass sets `status` and `code` and lives beside the operation that raises it.
    """

    status: int = 400
    code: str = "bad-request"
    fix: str | None = None

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


def problem(error: DomainError) -> Problem:
    """Return the RFC 9457 body of an error."""
    return Problem(
        type=f"/errors/{error.code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        code=error.code,
        detail=error.detail,
        fix=error.fix,
        errors=error.faults,
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
    retry_after = getattr(error, "wait", None)
    if retry_after is not None:
        response["Retry-After"] = str(int(retry_after) + 1)
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
        code = str(error.default_code).replace("_", "-")
        return _named(error.status_code, code, _sentence(error.detail))
    return None


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
