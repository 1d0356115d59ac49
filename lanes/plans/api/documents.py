"""Endpoints: the suite and the policy that the base branch registers."""

import json

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.scalars import rfc3339
from evalhub.web.errors import DomainError, NotFoundError
from evalhub.web.parameters import BadParameterError
from lanes.plans import queries
from lanes.plans.models import PolicyVersion, SuiteVersion
from lanes.plans.operations import documents
from lanes.plans.operations.documents import Notation
from lanes.projects.authentication import require_any_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors

_NOTATIONS = {
    "application/json": Notation.JSON,
    "application/yaml": Notation.YAML,
    "application/x-yaml": Notation.YAML,
    "text/yaml": Notation.YAML,
    "text/x-yaml": Notation.YAML,
}


class UnsupportedNotationError(DomainError):
    status = 415
    code = "unsupported-media-type"
    fix = "Send Content-Type: application/json or application/yaml."


class SuiteEndpoint(APIView):
    """`/api/v1/projects/<project>/suite`: register a version, or read the current one by `name`."""

    def put(self, request: Request, project: str) -> Response:
        token = require_any_scope(
            request, Scope.PROJECT_ADMIN, Scope.DOCUMENT_WRITE, project=project
        )
        suite = documents.put_suite(
            token.project,
            request.body,
            notation=_notation(request),
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        return Response({"name": suite.name, **_version(suite)})

    def get(self, request: Request, project: str) -> Response:
        token = require_any_scope(request, Scope.READ, Scope.PLAN_REGISTER, project=project)
        name = request.GET.get("name")
        if not name:
            raise BadParameterError("The parameter 'name' was absent; expected a suite's name.")
        suite = queries.current_suite(token.project, name)
        if suite is None:
            raise NotFoundError(f"Project {token.project.name} has no suite {name!r}.")
        document = json.loads(suite.document)
        return Response({"name": suite.name, **_version(suite), "suite": document})


class PolicyEndpoint(APIView):
    """`/api/v1/projects/<project>/policy`: register a version, or read the current one."""

    def put(self, request: Request, project: str) -> Response:
        token = require_any_scope(
            request, Scope.PROJECT_ADMIN, Scope.DOCUMENT_WRITE, project=project
        )
        policy = documents.put_policy(
            token.project,
            request.body,
            notation=_notation(request),
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        return Response(_version(policy))

    def get(self, request: Request, project: str) -> Response:
        token = require_any_scope(request, Scope.READ, Scope.PLAN_REGISTER, project=project)
        policy = queries.current_policy(token.project)
        if policy is None:
            raise NotFoundError(f"Project {token.project.name} has no policy yet.")
        return Response({**_version(policy), "policy": json.loads(policy.document)})


def _notation(request: Request) -> Notation:
    media_type = str(request.content_type or "").partition(";")[0].strip().lower()
    notation = _NOTATIONS.get(media_type)
    if notation is None:
        raise UnsupportedNotationError(
            f"The Content-Type was {repr(media_type) if media_type else 'absent'};"
            " expected that of JSON or YAML."
        )
    return notation


def _version(version: SuiteVersion | PolicyVersion) -> dict[str, object]:
    return {"digest": version.digest, "current_since": rfc3339(version.current_since)}
