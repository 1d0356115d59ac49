"""Endpoints of this room: segments, seals, imports; what is stored, pinned and purged."""

import io
from typing import Any, BinaryIO, cast

from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import SealRequest
from evalhub.protocol.retention import PinRequest, PurgeRequest, RetentionRequest
from evalhub.web.errors import LengthRequiredError
from evidence.store import presentation, queries
from evidence.store.models import StorageOperation
from evidence.store.operations import (
    faults,
    importing,
    intake,
    pins,
    purging,
    retention,
    sealing,
    uploads,
)
from evidence.store.operations.retention import Days
from lanes.plans import presentation as plans_presentation
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.authentication import require_attempt, require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors

# A machine that sends nothing for so long is gone; its thread is needed for others.
_SILENCE_SECONDS = 30
_LARGEST_SHOWN, _REMOVALS_SHOWN = 20, 50


class SegmentEndpoint(APIView):
    """`PUT /attempts/<id>/segments/<seq>`: hand over one segment of an attempt."""

    @faults.noted(StorageOperation.RECEIVE, clock=timezone.now)
    def put(self, request: Request, attempt: str, seq: int) -> Response:
        require_attempt(request, attempt)
        length = _content_length(request)
        with uploads.place_for_upload():
            _end_silent_upload(request)
            received = intake.receive_segment(
                plans_presentation.addressed_attempt(attempt),
                seq,
                stream=_body(request),
                length=length,
                content_digest=request.headers.get("Content-Digest", ""),
                at=timezone.now(),
            )
        return Response(
            received.receipt.model_dump(mode="json"), status=201 if received.is_new else 200
        )


class SealEndpoint(APIView):
    """`POST /attempts/<id>/seal`: hear what is missing, and end the attempt if it is final."""

    @faults.noted(StorageOperation.SEAL, clock=timezone.now)
    def post(self, request: Request, attempt: str) -> Response:
        require_attempt(request, attempt)
        answer = sealing.seal(
            plans_presentation.addressed_attempt(attempt),
            parse_document(SealRequest, request.body),
            at=timezone.now(),
        )
        return Response(answer.model_dump(mode="json"))


class ImportsEndpoint(APIView):
    """`POST /projects/<owner>/<name>/imports`: hand over the archive of a plan, which becomes foreign here."""

    @faults.noted(StorageOperation.RECEIVE, clock=timezone.now)
    def post(self, request: Request, owner: str, name: str) -> Response:
        token = require_scope(request, Scope.PROJECT_ADMIN, project=f"{owner}/{name}")
        length = _content_length(request)
        with uploads.place_for_upload():
            _end_silent_upload(request)
            imported = importing.receive_archive(
                token.project,
                stream=_body(request),
                length=length,
                content_digest=request.headers.get("Content-Digest", ""),
                actor=actors.actor_of(request),
                at=timezone.now(),
            )
        answer = presentation.imported_row(imported)
        page = request.build_absolute_uri(reverse("plan", args=[imported.plan.digest]))
        return Response({"url": page, **answer}, status=201 if imported.is_new else 200)


class StorageEndpoint(APIView):
    """`GET /projects/<owner>/<name>/storage`: what a project has stored, of what, and for how long."""

    def get(self, request: Request, owner: str, name: str) -> Response:
        project = require_scope(request, Scope.READ, project=f"{owner}/{name}").project
        largest = queries.largest_plans(project, limit=_LARGEST_SHOWN)
        removals = queries.removals_of_project(project)[:_REMOVALS_SHOWN]
        return Response(
            {
                "classes": presentation.storage_rows(queries.storage_of_project(project)),
                "retention": retention.days_of(project).as_json(),
                "pinned_plans": queries.pin_count(project),
                "largest": [presentation.plan_use_row(use) for use in largest],
                "removals": [
                    {"plan": row.plan.digest, **presentation.removal_row(row)} for row in removals
                ],
            }
        )


class RetentionEndpoint(APIView):
    """`PUT /projects/<owner>/<name>/retention`: change for how long evidence is kept, or ask what would go."""

    def put(self, request: Request, owner: str, name: str) -> Response:
        project = require_scope(request, Scope.PROJECT_ADMIN, project=f"{owner}/{name}").project
        wanted = parse_document(RetentionRequest, request.body)
        days, at = Days(wanted.record_days, wanted.bulk_days), timezone.now()
        due = retention.due_with(project, days, at=at)
        if wanted.dry_run:
            before = retention.days_of(project)
        else:
            actor = actors.actor_of(request)
            before = retention.set_retention(project, days, actor=actor, at=at)
        return Response(
            {
                "before": before.as_json(),
                "after": days.as_json(),
                "due": presentation.due_rows(due),
                "dry_run": wanted.dry_run,
            }
        )


class PinEndpoint(APIView):
    """`PUT, DELETE /plans/<digest>/pin`: keep a plan's evidence whatever its age, or no longer."""

    def put(self, request: Request, digest: str) -> Response:
        plan = _administered(request, digest)
        pins.pin_plan(
            plan,
            reason=parse_document(PinRequest, request.body).reason,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        return Response({"pins": [presentation.pin_row(p) for p in queries.pins_of_plan(plan)]})

    def delete(self, request: Request, digest: str) -> Response:
        plan = _administered(request, digest)
        pins.unpin_plan(plan, actor=actors.actor_of(request), at=timezone.now())
        return Response({"pins": [presentation.pin_row(p) for p in queries.pins_of_plan(plan)]})


class PurgesEndpoint(APIView):
    """`GET, POST /plans/<digest>/purges`: what was removed of a plan; have bytes removed for good."""

    def get(self, request: Request, digest: str) -> Response:
        plan = plan_queries.plan_with_digest(digest)
        require_scope(request, Scope.READ, project=plan.project)
        removals = queries.removals_of_plan(plan)[:_REMOVALS_SHOWN]
        return Response({"removals": [presentation.removal_row(row) for row in removals]})

    def post(self, request: Request, digest: str) -> Response:
        plan = _administered(request, digest)
        wanted = parse_document(PurgeRequest, request.body)
        target = presentation.target_of(plan, wanted)
        if wanted.dry_run:
            return Response(presentation.preview_row(purging.preview(target)))
        removal = purging.purge(
            target,
            reason=wanted.reason,
            even_pinned=wanted.even_pinned,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
        return Response(presentation.removal_row(removal), status=202)


def _administered(request: Request, digest: str) -> Plan:
    plan = plan_queries.plan_with_digest(digest)
    require_scope(request, Scope.PROJECT_ADMIN, project=plan.project)
    return plan


def _content_length(request: Request) -> int:
    # Servers hand a chunked body over as an empty one, which would be acknowledged as such.
    text = request.META.get("CONTENT_LENGTH") or ""
    if not text.isascii() or not text.isdecimal() or "HTTP_TRANSFER_ENCODING" in request.META:
        raise LengthRequiredError("The upload has no Content-Length.")
    return int(text)


def _body(request: Request) -> BinaryIO:
    # DRF has no stream for an empty body.
    return cast(BinaryIO, request.stream) if request.stream is not None else io.BytesIO()


def _end_silent_upload(request: Request) -> None:
    socket: Any = request.META.get("gunicorn.socket")
    if socket is not None:
        socket.settimeout(_SILENCE_SECONDS)
