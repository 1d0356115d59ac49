"""Endpoints: the nightlies that a project waits for."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import ScheduleRequest
from lanes.plans import presentation, queries
from lanes.plans.models import ExpectedSchedule
from lanes.plans.operations import schedules
from lanes.projects.authentication import require_any_scope, require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors

_READERS = (Scope.READ, Scope.PLAN_REGISTER)


class SchedulesEndpoint(APIView):
    """`GET /api/v1/projects/<project>/schedules`: the nightlies that are waited for, by suite."""

    def get(self, request: Request, project: str) -> Response:
        token = require_any_scope(request, *_READERS, project=project)
        return Response({"schedules": _rows(queries.schedules_of([token.project]))})


class ScheduleEndpoint(APIView):
    """`/api/v1/projects/<project>/schedules/<suite>`: wait for a nightly, look at it, stop waiting."""

    def get(self, request: Request, project: str, suite: str) -> Response:
        token = require_any_scope(request, *_READERS, project=project)
        return Response(_rows([queries.schedule_of(token.project, suite)])[0])

    def put(self, request: Request, project: str, suite: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted = parse_document(ScheduleRequest, request.body)
        schedule, created = schedules.put_schedule(
            token.project, suite, wanted, actor=actors.actor_of(request), at=timezone.now()
        )
        return Response(_rows([schedule])[0], status=201 if created else 200)

    def delete(self, request: Request, project: str, suite: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        schedule = queries.schedule_of(token.project, suite)
        schedules.remove_schedule(schedule, actor=actors.actor_of(request), at=timezone.now())
        return Response(status=204)


def _rows(found: list[ExpectedSchedule]) -> list[dict[str, object]]:
    states = queries.schedule_states(found, at=timezone.now())
    return [presentation.schedule_row(state) for state in states]
