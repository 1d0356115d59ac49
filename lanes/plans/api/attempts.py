"""Endpoints: a lane opens an attempt, renews its token, says how far it is, asks for money."""

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import (
    AttemptLimits,
    BudgetAnswer,
    BudgetRequest,
    Heartbeat,
    OpenedAttempt,
    TokenAnswer,
)
from lanes.budget import queries as budget_queries
from lanes.plans import presentation, queries
from lanes.plans.operations import attempts, jobs
from lanes.projects.authentication import (
    bearer_token,
    noting_refusals,
    require_attempt,
    require_scope,
)
from lanes.projects.models import Scope

# The answer holds a secret.
_NOT_KEPT = {"Cache-Control": "no-store"}


class AttemptsEndpoint(APIView):
    """`POST /api/v1/plans/<digest>/lanes/<lane>/attempts`: open the next attempt of a lane."""

    def post(self, request: Request, digest: str, lane: str) -> Response:
        plan = queries.plan_with_digest(digest)
        token = require_scope(request, Scope.LANE_WRITE, project=plan.project)
        presentation.expect_no_content(request.body)
        with noting_refusals(request):
            attempt, lane_token = jobs.begin_attempt(plan, lane, token=token, at=timezone.now())
        allocation = budget_queries.allocation_of(plan.digest, lane)
        answer = OpenedAttempt(
            attempt=attempt.key,
            lane_token=lane_token.secret,
            expires_in=settings.LANE_TOKEN_SECONDS,
            salt=plan.project.salt,
            plan_slice=presentation.plan_slice(plan, lane),
            limits=AttemptLimits(
                segment_bytes=settings.SEGMENT_BYTES, flush_seconds=settings.FLUSH_SECONDS
            ),
            budget_microusd=allocation.limit_microusd if allocation is not None else None,
            heartbeat_seconds=settings.HEARTBEAT_SECONDS,
        )
        return Response(answer.model_dump(mode="json"), status=201, headers=_NOT_KEPT)


class AttemptTokenEndpoint(APIView):
    """`POST /api/v1/attempts/<id>/token`: a fresh lane token, also for uploads after the end."""

    def post(self, request: Request, key: str) -> Response:
        # Asked first: a lane token of another attempt need not learn whether this one exists.
        if bearer_token(request).attempt is not None:
            require_attempt(request, key)
        attempt = presentation.addressed_attempt(key)
        if bearer_token(request).attempt is None:
            require_scope(request, Scope.LANE_WRITE, project=attempt.lane.plan.project)
        presentation.expect_no_content(request.body)
        with noting_refusals(request):
            lane_token = jobs.renew_lane_token(
                attempt, token=bearer_token(request), at=timezone.now()
            )
        answer = TokenAnswer(
            lane_token=lane_token.secret,
            expires_in=settings.LANE_TOKEN_SECONDS,
            expires_at=lane_token.expires_at,
        )
        return Response(answer.model_dump(mode="json"), status=201, headers=_NOT_KEPT)


class HeartbeatEndpoint(APIView):
    """`POST /api/v1/attempts/<id>/heartbeat`: how far the lane is; answers whether to go on."""

    def post(self, request: Request, key: str) -> Response:
        require_attempt(request, key)
        heartbeat = parse_document(Heartbeat, request.body)
        answer = attempts.record_heartbeat(
            presentation.addressed_attempt(key), heartbeat, at=timezone.now()
        )
        return Response(answer.model_dump(mode="json"))


class BudgetEndpoint(APIView):
    """`POST /api/v1/attempts/<id>/budget`: more judge money out of the lane's pool."""

    def post(self, request: Request, key: str) -> Response:
        require_attempt(request, key)
        wanted = parse_document(BudgetRequest, request.body)
        allocation = attempts.extend_budget(
            presentation.addressed_attempt(key), microusd=wanted.microusd, at=timezone.now()
        )
        answer = BudgetAnswer(budget_microusd=allocation.limit_microusd)
        return Response(answer.model_dump(mode="json"))
