"""Endpoints: a plan is decided now, opened again after that, or cancelled for good."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import CancelRequest
from lanes.plans import presentation, queries
from lanes.plans.models import Plan
from lanes.plans.operations import cancelling, jobs, lifecycle
from lanes.projects.authentication import noting_refusals, require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors


class CloseEndpoint(APIView):
    """`POST /api/v1/plans/<digest>/close`: have the plan decided now, with what is there."""

    def post(self, request: Request, digest: str) -> Response:
        plan = queries.plan_with_digest(digest)
        _require_own_plan(request, plan)
        presentation.expect_no_content(request.body)
        lifecycle.close_plan(plan, actor=actors.actor_of(request), at=timezone.now())
        return Response(presentation.addressed_row(request, queries.plan_with_digest(digest)))


class ReopenEndpoint(APIView):
    """`POST /api/v1/plans/<digest>/reopen`: wait again for the lanes of a closed or overdue plan."""

    def post(self, request: Request, digest: str) -> Response:
        plan = queries.plan_with_digest(digest)
        _require_own_plan(request, plan)
        presentation.expect_no_content(request.body)
        lifecycle.reopen_plan(plan, actor=actors.actor_of(request), at=timezone.now())
        return Response(presentation.addressed_row(request, queries.plan_with_digest(digest)))


class CancelEndpoint(APIView):
    """`POST /api/v1/plans/<digest>/cancel`: nobody waits for the plan any more."""

    def post(self, request: Request, digest: str) -> Response:
        plan = queries.plan_with_digest(digest)
        _require_own_plan(request, plan)
        wanted = parse_document(CancelRequest, request.body)
        cancelling.cancel_plan(
            plan, reason=wanted.reason, actor=actors.actor_of(request), at=timezone.now()
        )
        return Response(presentation.addressed_row(request, queries.plan_with_digest(digest)))


def _require_own_plan(request: Request, plan: Plan) -> None:
    """Return if the token may act on the plan; a CI job's is for plans of its own workflow run."""
    token = require_scope(request, Scope.PLAN_REGISTER, project=plan.project)
    with noting_refusals(request):
        jobs.require_own_plan(plan, token)
