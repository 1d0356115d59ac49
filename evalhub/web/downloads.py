"""Raw bytes for a reader's disk: never rendered, whatever they claim to be."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header


def attachment(data: bytes, *, name: str) -> HttpResponse:
    """Return bytes as a download under `name`, with a policy under which nothing in them can act."""
    return HttpResponse(
        data,
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": str(
                content_disposition_header(as_attachment=True, filename=name)
            ),
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
        },
    )
