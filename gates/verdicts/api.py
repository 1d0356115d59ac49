"""Baselines over HTTP: adopt one by name, list them."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import AdoptionRequest
from evalhub.protocol.scalars import rfc3339
from gates.verdicts.models import Baseline, BaselineKind
from gates.verdicts.operations import baselines as baseline_operations
from gates.verdicts.queries import baselines as baseline_queries
from lanes.plans import queries as plan_queries
from lanes.projects.authentication import require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors

_SHOWN = 200


class BaselinesEndpoint(APIView):
    """`/projects/<project>/baselines`."""

    def get(self, request: Request, project: str) -> Response:
        """List the baselines of a project, the newest adoption first."""
        token = require_scope(request, Scope.READ, project=project)
        rows = baseline_queries.baselines_of(token.project)[:_SHOWN]
        return Response({"baselines": [_as_json(row) for row in rows]})

    def post(self, request: Request, project: str) -> Response:
        """Adopt a plan by name."""
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted = parse_document(AdoptionRequest, request.body)
        baseline = baseline_operations.adopt_baseline(
            token.project,
            plan_queries.plan_with_digest(wanted.plan),
            kind=BaselineKind(wanted.kind.upper()),
            reason=wanted.reason,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        return Response(_as_json(baseline), status=201)


def _as_json(baseline: Baseline) -> dict[str, object]:
    return {
        "suite": baseline.suite_name,
        "kind": baseline.kind.lower(),
        "plan": baseline.plan.digest,
        "adopted_by": baseline.adopted_by,
        "adopted_at": rfc3339(baseline.adopted_at),
        "reason": baseline.reason,
    }
