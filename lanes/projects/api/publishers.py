"""Endpoints: a project's trusted publishers, and who was refused."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.identity import PublisherSettings
from evalhub.web.parameters import number_or, whole_number
from lanes.projects import presentation
from lanes.projects.authentication import require_scope
from lanes.projects.models import Scope
from lanes.projects.operations import publishers as operations
from lanes.projects.queries import actors, publishers

_MOST_LISTED = 100


class PublishersEndpoint(APIView):
    """`/api/v1/projects/<project>/publishers`: the workflows that it trusts; trust another."""

    def get(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        rows = publishers.publishers_of(token.project)
        return Response({"publishers": [presentation.publisher_row(row) for row in rows]})

    def post(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted = parse_document(PublisherSettings, request.body)
        kept = operations.trust_publisher(
            token.project, wanted, actor=actors.actor_of(request), at=timezone.now()
        )
        row = presentation.publisher_row(kept.publisher)
        return Response(row, status=201 if kept.is_new else 200)


class PublisherEndpoint(APIView):
    """`/api/v1/projects/<project>/publishers/<number>`: look at it, trust it no longer."""

    def get(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found = publishers.publisher_numbered(token.project, number)
        return Response(presentation.publisher_row(found))

    def delete(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found = publishers.publisher_numbered(token.project, number)
        operations.remove_publisher(found, actor=actors.actor_of(request), at=timezone.now())
        return Response(status=204)


class RefusalsEndpoint(APIView):
    """`GET /api/v1/projects/<project>/refusals`: who tried to speak for it, newest first."""

    def get(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        found = publishers.refusals_of(token.project)
        before = whole_number(request, "before")
        if before is not None:
            found = found.filter(pk__lt=before)
        rows = found[: number_or(request, "limit", 50, most=_MOST_LISTED)]
        return Response({"refusals": [presentation.refusal_row(row) for row in rows]})
