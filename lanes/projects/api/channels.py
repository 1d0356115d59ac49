"""Endpoints: the channels of a project."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.notices import ChannelSettings, KeptChannel
from lanes.projects import presentation
from lanes.projects.authentication import require_scope
from lanes.projects.models import Channel, ChannelKind, NoticeKind, Scope
from lanes.projects.operations import channels as operations
from lanes.projects.operations import wording
from lanes.projects.queries import actors, channels


class ChannelsEndpoint(APIView):
    """`GET /api/v1/projects/<project>/channels`: those in use first."""

    def get(self, request: Request, project: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        return Response({"channels": [_row(row) for row in channels.channels_of(token.project)]})


class ChannelEndpoint(APIView):
    """`/api/v1/projects/<project>/channels/<name>`: look at it, make or change it, disable it."""

    def get(self, request: Request, project: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        return Response(_row(channels.channel_named(token.project, name)))

    def put(self, request: Request, project: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        wanted = parse_document(ChannelSettings, request.body)
        kept = operations.put_channel(
            token.project,
            name,
            kind=ChannelKind(wanted.kind),
            target=wanted.target,
            notice_kinds=[NoticeKind(kind) for kind in wanted.notices],
            new_secret=wanted.new_secret,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        row = presentation.channel_fields(channels.channel_named(token.project, name))
        answer = KeptChannel.model_validate({**row, "secret": kept.secret})
        return Response(answer.model_dump(mode="json"), status=201 if kept.is_new else 200)

    def delete(self, request: Request, project: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        channel = channels.channel_named(token.project, name)
        operations.disable_channel(channel, actor=actors.actor_of(request), at=timezone.now())
        return Response(status=204)


class ChannelTestEndpoint(APIView):
    """`POST /api/v1/projects/<project>/channels/<name>/test`: send a notice on this channel alone."""

    def post(self, request: Request, project: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=project)
        channel = channels.channel_named(token.project, name)
        sent = operations.test_channel(channel, actor=actors.actor_of(request), at=timezone.now())
        return Response(wording.document(sent).model_dump(mode="json", by_alias=True), status=201)


def _row(channel: Channel) -> dict[str, object]:
    return presentation.channel_document(channel).model_dump(mode="json")
