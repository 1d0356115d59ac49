"""Endpoints of this room: sending a segment, sealing an attempt."""

import io
from typing import Any, BinaryIO, cast

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.faults import parse_document
from evalhub.protocol.messages import SealRequest
from evalhub.web.errors import LengthRequiredError
from evidence.store.models import StorageOperation
from evidence.store.operations import faults, intake, sealing, uploads
from lanes.plans import presentation as plans_presentation
from lanes.projects.authentication import require_attempt

# A machine that sends nothing for so long is gone; its thread is needed for others.
_SILENCE_SECONDS = 30


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
