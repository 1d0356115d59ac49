"""Limits on how often somebody may ask, counted in the database that all web processes share."""

from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from django.db import IntegrityError, transaction
from django.db.models import Case, F, PositiveIntegerField, Q, Value, When

from evalhub.web.errors import DomainError
from lanes.projects.models import RequestCount

WINDOW = timedelta(minutes=1)
MOST_ROWS = 10_000
"""Whoever is new beyond so many at a time shares one count."""
_OTHERS = "everybody else"


class TooManyRequestsError(DomainError):
    status = 429
    code = "too-many-requests"


def count_request(key: str, *, most: int, at: datetime, whose: str | None = None) -> None:
    """Count a request, of which `most` are taken in a minute. To be called outside of a transaction.

    `whose` says in words for whom it is counted, where the key is not for people to read.

    Raises:
        TooManyRequestsError: if it is one too many; it says when to come back.
    """
    row = _counted(key, at=at) or _begun(key, at=at)
    if row.count > most:
        error = TooManyRequestsError(
            f"More than {most} requests came from {whose or key} within a minute.",
            fix="Wait, and ask less often.",
        )
        error.retry_after_seconds = max(1, ceil((row.began_at + WINDOW - at).total_seconds()))
        raise error


def address_key(address: str) -> str:
    """Return the key of an address; of IPv6 its network, of which one machine has all addresses."""
    try:
        known = ip_address(address)
    except ValueError:
        return "address unknown"
    if isinstance(known, IPv6Address):
        mapped = known.ipv4_mapped
        return f"address {mapped or ip_network((known, 64), strict=False)}"
    return f"address {known}"


def _counted(key: str, *, at: datetime) -> RequestCount | None:
    # A window of the far future: this server's clock was set back. Of the near one: who came a moment
    # later was counted first.
    is_over = Q(began_at__lte=at - WINDOW) | Q(began_at__gt=at + WINDOW)
    found = RequestCount.objects.filter(key=key)
    if not found.update(
        count=Case(
            When(is_over, then=Value(1)),
            default=F("count") + 1,
            output_field=PositiveIntegerField(),
        ),
        began_at=Case(When(is_over, then=Value(at)), default=F("began_at")),
    ):
        return None
    return found.first()


def _begun(key: str, *, at: datetime) -> RequestCount:
    RequestCount.objects.filter(began_at__lte=at - WINDOW).delete()
    if RequestCount.objects.count() >= MOST_ROWS:
        key = _OTHERS
    try:
        with transaction.atomic():
            return RequestCount.objects.create(key=key, began_at=at, count=1)
    except IntegrityError:
        # Another process was quicker.
        return _counted(key, at=at) or RequestCount(key=key, began_at=at, count=1)
