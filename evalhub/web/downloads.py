"""Raw bytes for a reader's disk: never rendered, whatever they claim to be."""

from collections.abc import Iterable

from django.http import HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header


def attachment(data: bytes, *, name: str) -> HttpResponse:
    """Return bytes as a download under `name`, with a policy under which nothing in them can act."""
    return HttpResponse(data, content_type="application/octet-stream", headers=_headers(name))


def streamed_attachment(
    pieces: Iterable[bytes], *, name: str, content_type: str
) -> StreamingHttpResponse:
    """Return a download of any size, as `attachment` does; what fails on the way breaks it off."""
    return StreamingHttpResponse(pieces, content_type=content_type, headers=_headers(name))


def _headers(name: str) -> dict[str, str]:
    return {
        "Content-Disposition": str(content_disposition_header(as_attachment=True, filename=name)),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
