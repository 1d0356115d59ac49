"""Endpoint: a CI job's identity for a run token (RFC 8693)."""

from urllib.parse import parse_qsl

from django.utils import timezone
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.identity import (
    ID_TOKEN_TYPE,
    JWT_TYPE,
    TOKEN_EXCHANGE,
    ExchangedToken,
)
from evalhub.web.client_address import client_address
from evalhub.web.errors import DomainError
from lanes.projects.operations import exchange

_FORM = "application/x-www-form-urlencoded"
_LARGEST_BODY = 64 * 1024
_MOST_FIELDS = 20


class ExchangeRequestError(DomainError):
    """The request is no token exchange; nothing was looked at."""

    status = 400
    code = "invalid-exchange"
    fix = (
        f"Send {_FORM} with grant_type={TOKEN_EXCHANGE}, subject_token and"
        f" subject_token_type={JWT_TYPE}."
    )


class TokenEndpoint(APIView):
    """`POST /api/v1/token`: take the identity that CI gave to a job, give a token to work with."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def post(self, request: Request) -> Response:
        token = _subject_token(request)
        at = timezone.now()
        given = exchange.exchange_identity(token, address=client_address(request), at=at)
        answer = ExchangedToken(
            access_token=given.issued.secret,
            expires_in=int(exchange.RUN_TOKEN_LIFE.total_seconds()),
            scope=" ".join(given.issued.token.scopes),
            project=given.project.name,
            verified_source=given.source,
        )
        # The answer holds a secret.
        return Response(answer.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


def _subject_token(request: Request) -> str:
    form = _form(request)
    if form.get("grant_type") != TOKEN_EXCHANGE:
        raise ExchangeRequestError(f"The grant_type was not {TOKEN_EXCHANGE}.")
    if form.get("subject_token_type") not in {JWT_TYPE, ID_TOKEN_TYPE}:
        raise ExchangeRequestError(f"The subject_token_type was not {JWT_TYPE}.")
    token = form.get("subject_token", "")
    if not token:
        raise ExchangeRequestError("The request has no subject_token.")
    return token


def _form(request: Request) -> dict[str, str]:
    if str(request.content_type or "").partition(";")[0].strip().lower() != _FORM:
        raise ExchangeRequestError(f"The Content-Type was not {_FORM}.")
    if int(request.META.get("CONTENT_LENGTH") or 0) > _LARGEST_BODY:
        raise ExchangeRequestError(f"The body has more than {_LARGEST_BODY} bytes.")
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        # Of the body nothing is told: it holds a secret.
        raise ExchangeRequestError("The body is not a form.") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise ExchangeRequestError("A field was given twice; expected each once.")
    return form
