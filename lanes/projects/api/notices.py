"""Endpoints: notices, and their acknowledgement."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.web.parameters import BadParameterError, number_or, query_with, whole_number
from lanes.projects.authentication import require_scope
from lanes.projects.models import Notice, NoticeKind, NoticeState, Scope
from lanes.projects.operations import notices as operations
from lanes.projects.operations import wording
from lanes.projects.queries import actors, notices

_PER_PAGE = 50
_MOST_PER_PAGE = 500


class NoticesEndpoint(APIView):
    """`GET /api/v1/projects/<project>/notices`: newest first; `state`, `kind`, `before`, `limit`."""

    def get(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.READ, project=project)
        limit = number_or(request, "limit", _PER_PAGE, most=_MOST_PER_PAGE)
        state, kind = _chosen(request, "state", NoticeState), _chosen(request, "kind", NoticeKind)
        found = notices.notices_of(
            token.project,
            states=[NoticeState(state)] if state else tuple(NoticeState),
            kind=NoticeKind(kind) if kind else None,
            before=whole_number(request, "before"),
            limit=limit + 1,
        )
        following = None
        if len(found) > limit:
            query = query_with(request, before=found[limit - 1].pk)
            following = request.build_absolute_uri(query)
        return Response({"notices": [_row(notice) for notice in found[:limit]], "next": following})


class NoticeEndpoint(APIView):
    """`GET /api/v1/projects/<project>/notices/<number>`."""

    def get(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.READ, project=project)
        return Response(_row(notices.notice_numbered(token.project, number)))


class AcknowledgeEndpoint(APIView):
    """`POST /api/v1/projects/<project>/notices/<number>/acknowledge`: the first one stays."""

    def post(self, request: Request, project: str, number: int) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        notice = notices.notice_numbered(token.project, number)
        known = operations.acknowledge_notice(
            notice, actor=actors.actor_of(request), at=timezone.now()
        )
        return Response(_row(known))


def _row(notice: Notice) -> dict[str, object]:
    return wording.document(notice).model_dump(mode="json", by_alias=True)


def _chosen(request: Request, name: str, among: type[NoticeState] | type[NoticeKind]) -> str:
    value = request.GET.get(name, "")
    if value and value not in among:
        raise BadParameterError(
            f"The parameter {name!r} was {value[:40]!r}; it takes {' or '.join(among.values)}."
        )
    return str(value)
