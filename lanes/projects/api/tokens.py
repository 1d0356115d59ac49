"""Endpoints: the tokens that people made for a project. A secret is in one answer, once."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.identity import TokenSettings
from evalhub.web.parameters import number_or, whole_number
from lanes.projects import presentation
from lanes.projects.authentication import require_scope
from lanes.projects.models import Scope
from lanes.projects.operations import static_tokens
from lanes.projects.operations import tokens as operations
from lanes.projects.queries import actors, tokens

_MOST_LISTED = 200


class TokensEndpoint(APIView):
    """`/api/v1/projects/<project>/tokens`: list them, newest first; make another."""

    def get(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found, at = tokens.static_tokens_of(token.project), timezone.now()
        before = whole_number(request, "before")
        if before is not None:
            found = found.filter(pk__lt=before)
        rows = found[: number_or(request, "limit", 50, most=_MOST_LISTED)]
        return Response({"tokens": [presentation.token_row(row, at=at) for row in rows]})

    def post(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted, at = parse_document(TokenSettings, request.body), timezone.now()
        made = static_tokens.make_token(
            token.project, wanted, actor=actors.actor_of(request), at=at
        )
        row = {**presentation.token_row(made.token, at=at), "token": made.secret}
        return Response(row, status=201, headers={"Cache-Control": "no-store"})


class StaticTokenEndpoint(APIView):
    """`/api/v1/projects/<project>/tokens/<number>`: look at it, revoke it."""

    def get(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found = tokens.static_token_numbered(token.project, number)
        return Response(presentation.token_row(found, at=timezone.now()))

    def delete(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found = tokens.static_token_numbered(token.project, number)
        operations.revoke_token(found, actor=actors.actor_of(request), at=timezone.now())
        return Response(status=204)
