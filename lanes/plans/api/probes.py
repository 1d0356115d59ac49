"""Endpoint: how the simulators of a plan answered, held against the real API."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lanes.fidelity import queries as fidelity
from lanes.plans import presentation, queries
from lanes.projects.authentication import require_any_scope
from lanes.projects.models import Scope


class ProbesEndpoint(APIView):
    """`GET /api/v1/plans/<digest>/probes`: the match rate of each simulator build, and what differed."""

    def get(self, request: Request, digest: str) -> Response:
        plan = queries.plan_with_digest(digest)
        require_any_scope(request, Scope.READ, Scope.PLAN_REGISTER, project=plan.project)
        rates = fidelity.rates_of_plan(plan.digest)
        return Response({"simulators": [presentation.rate_row(rate) for rate in rates]})
