"""From where a request comes, as far as that can be known behind proxies."""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def client_address(request: HttpRequest | Request) -> str:
    """Return the address of whoever asks: of the connection, or what EVALHUB_PROXIES proxies add.

    Each proxy appends whom it talked to, so of what the header says only that many entries, from the
    end, were written by somebody who is known; all before them is the asker's own word.
    """
    connected = str(request.META.get("REMOTE_ADDR", ""))
    if not settings.PROXIES:
        return connected
    entries = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    return entries[-settings.PROXIES] if len(entries) >= settings.PROXIES else connected
