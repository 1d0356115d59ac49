"""Endpoints: judge pools."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import PoolRequest
from lanes.budget import queries
from lanes.budget.operations import money
from lanes.projects.authentication import require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors


class PoolEndpoint(APIView):
    """`PUT /api/v1/projects/<project>/pools/<name>`: create or change a judge pool."""

    def put(self, request: Request, project: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted = parse_document(PoolRequest, request.body)
        pool, created = money.put_pool(
            token.project,
            name,
            credential_fingerprint=wanted.credential_fingerprint,
            limit_microusd=wanted.limit_microusd,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        answer = {
            "name": pool.name,
            "credential_fingerprint": pool.credential_fingerprint,
            "limit_microusd": pool.limit_microusd,
            "left_microusd": queries.pool_left(pool),
        }
        return Response(answer, status=201 if created else 200)
