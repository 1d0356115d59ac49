"""Endpoints: register a plan, read plans, have one decided."""

import json

from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.identity import SOURCE_DISAGREES
from evalhub.protocol.messages import Registered, RegisteredLane
from evalhub.web.errors import ForbiddenError
from evalhub.web.parameters import BadParameterError, number_or, whole_number
from lanes.plans import presentation, queries
from lanes.plans.models import Plan
from lanes.plans.operations import registration
from lanes.plans.operations.registration import PlanRefusedError
from lanes.projects.authentication import (
    bearer_token,
    note_refusal,
    noting_refusals,
    require_any_scope,
    require_scope,
)
from lanes.projects.models import Scope, Token

_MOST_LISTED = 100
# Whoever registers plans looks for the one that this workflow run has already.
_READERS = (Scope.READ, Scope.PLAN_REGISTER)


class PlansEndpoint(APIView):
    """`/api/v1/plans`: register a plan, or list the token's project's plans, newest first."""

    def post(self, request: Request) -> Response:
        token = bearer_token(request)
        require_scope(request, Scope.PLAN_REGISTER, project=token.project)
        try:
            plan, created = registration.register_plan(request.body, token=token, at=timezone.now())
        except PlanRefusedError as error:
            if any(refusal.code == SOURCE_DISAGREES for refusal in error.refusals):
                note_refusal(request, token, error)
            raise
        answer = Registered(
            digest=plan.digest,
            url=request.build_absolute_uri(reverse("plan", args=[plan.digest])),
            lanes=[
                RegisteredLane(name=lane.name, attempts_url=_attempts_url(request, plan, lane.name))
                for lane in queries.lanes_of(plan)
            ],
            verified=plan.is_verified,
        )
        return Response(answer.model_dump(mode="json"), status=201 if created else 200)

    def get(self, request: Request) -> Response:
        token = bearer_token(request)
        require_any_scope(request, *_READERS, project=token.project)
        _refuse_unknown_parameters(request)
        if request.GET.get("project", token.project.name) != token.project.name:
            require_any_scope(request, *_READERS, project=request.GET["project"])
        before = request.GET.get("before")
        plans = queries.plans_of(
            [token.project],
            before=queries.plan_with_digest(before) if before else None,
            wanted=queries.PlanFilter(
                suite_name=request.GET.get("suite") or None,
                workflow_run_id=whole_number(request, "workflow_run_id"),
            ),
            limit=number_or(request, "limit", 50, most=_MOST_LISTED),
        )
        return Response({"plans": [_listed(request, plan) for plan in plans]})


class PlanEndpoint(APIView):
    """`GET /api/v1/plans/<digest>`: the plan and its state; for a lane token, its own slice."""

    def get(self, request: Request, digest: str) -> Response:
        plan = queries.plan_with_digest(digest)
        with noting_refusals(request):
            lane = _lane_of(bearer_token(request), plan)
        if lane is None:
            require_any_scope(request, *_READERS, project=plan.project)
            document = json.loads(plan.document)
        else:
            document = presentation.plan_slice(plan, lane)
        lanes = presentation.lane_rows(plan, only=lane)
        return Response({**_listed(request, plan), "lanes": lanes, "document": document})


def _lane_of(token: Token, plan: Plan) -> str | None:
    """Return the plan's lane that a lane token is for; None for a token of another kind."""
    if token.attempt is None:
        return None
    lane = queries.attempt_with_key(token.attempt).lane
    if lane.plan_id != plan.pk:
        raise ForbiddenError(f"The token is the lane token of {token.attempt}, of another plan.")
    return lane.name


def _refuse_unknown_parameters(request: Request) -> None:
    known = {"workflow_run_id", "suite", "project", "limit", "before"}
    for name in request.GET:
        if name not in known:
            raise BadParameterError(
                f"The parameter {name[:40]!r} is not known; expected one of"
                f" {', '.join(sorted(known))}."
            )


def _attempts_url(request: Request, plan: Plan, lane: str) -> str:
    return request.build_absolute_uri(reverse("api-attempts", args=[plan.digest, lane]))


def _listed(request: Request, plan: Plan) -> dict[str, object]:
    return presentation.addressed_row(request, plan)
