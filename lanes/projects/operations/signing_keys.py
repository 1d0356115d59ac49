"""The issuer's signing keys: kept in a row for all processes, asked for anew at most once a minute."""

from datetime import datetime, timedelta
from math import ceil

import jwt
from django.db.models import F, Q

from lanes.projects import identity
from lanes.projects.identity import IdentityRefusedError, IssuerUnavailableError
from lanes.projects.models import IssuerKeys

BETWEEN_QUESTIONS = timedelta(seconds=60)
"""Whatever key ids are invented, and however many processes hear of them."""
_FRESH = timedelta(hours=1)
# A key that the issuer has withdrawn must stop to count some day, even while the issuer is away.
_LONGEST_KEPT = timedelta(hours=24)
_WHILE_ASKING_SECONDS = 2


def key_for(key_id: str, *, issuer: str, at: datetime) -> jwt.PyJWK:
    """Return the issuer's key of this id. To be called outside of any transaction.

    Keys are asked for again when they are an hour old, or when this one is not among them. Where the
    issuer is away, those that were kept stand for a day.

    Raises:
        IdentityRefusedError: if the issuer has no such key.
        IssuerUnavailableError: while that cannot be told.
    """
    IssuerKeys.objects.get_or_create(issuer=issuer)
    key = _kept_key(issuer, key_id, at=at, not_older=_FRESH)
    if key is not None:
        return key
    has_asked = _may_ask(issuer, at=at)
    if has_asked:
        _ask(issuer, at=at)
    key = _kept_key(issuer, key_id, at=at, not_older=_LONGEST_KEPT)
    if key is not None:
        return key
    raise _why_there_is_none(key_id, issuer=issuer, at=at, has_asked=has_asked)


def _kept_key(issuer: str, key_id: str, *, at: datetime, not_older: timedelta) -> jwt.PyJWK | None:
    row = IssuerKeys.objects.get(issuer=issuer)
    # In the future where this server's clock was set back since.
    if row.fetched_at is None or abs(at - row.fetched_at) > not_older:
        return None
    return identity.key_named(row.document, key_id)


def _may_ask(issuer: str, *, at: datetime) -> bool:
    """Claim the next question; of many at once one may. A clock that was set back holds nobody up."""
    # In the future too: who came a moment later may have claimed it first.
    recently = Q(asked_at__gt=at - BETWEEN_QUESTIONS, asked_at__lt=at + BETWEEN_QUESTIONS)
    return bool(IssuerKeys.objects.filter(issuer=issuer).exclude(recently).update(asked_at=at))


def _ask(issuer: str, *, at: datetime) -> None:
    row = IssuerKeys.objects.filter(issuer=issuer)
    try:
        document = identity.fetched_keys(issuer)
    except IssuerUnavailableError as error:
        # What was kept stays: one bad answer must not stop everybody.
        row.update(answered_at=F("asked_at"), error=error.detail)
    else:
        row.update(document=document, fetched_at=at, answered_at=F("asked_at"), error="")


def _why_there_is_none(
    key_id: str, *, issuer: str, at: datetime, has_asked: bool
) -> IdentityRefusedError | IssuerUnavailableError:
    row = IssuerKeys.objects.get(issuer=issuer)
    if row.error:
        return _later(row.error, _seconds_left(row, at=at))
    if row.answered_at != row.asked_at:
        return _later(f"The keys of {issuer} are being asked for.", _WHILE_ASKING_SECONDS)
    if has_asked:
        return IdentityRefusedError(
            "key", f"The token is signed with a key {key_id[:80]!a}, which {issuer} does not have."
        )
    # It may be a key that came after the newest question.
    return _later(
        f"The key {key_id[:80]!a} of {issuer} is not known yet.", _seconds_left(row, at=at)
    )


def _seconds_left(row: IssuerKeys, *, at: datetime) -> int:
    asked_at = row.asked_at or at
    return max(1, ceil((asked_at + BETWEEN_QUESTIONS - at).total_seconds()))


def _later(detail: str, seconds: int) -> IssuerUnavailableError:
    error = IssuerUnavailableError(detail)
    error.retry_after_seconds = seconds
    return error
