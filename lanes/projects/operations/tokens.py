"""Issue, revoke and note the use of tokens."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q

from evalhub.protocol.identity import VerifiedSource
from evalhub.protocol.scalars import rfc3339
from lanes.projects.models import Project, Scope, Token, TrustedPublisher
from lanes.projects.operations import audit
from lanes.projects.queries import tokens as token_queries

# `last_used_at` tells a person which tokens are alive; a write for each request would be too much.
_TOUCH_EVERY = timedelta(minutes=10)


class IssuedToken(NamedTuple):
    """A token and its secret, which is not kept and cannot be shown again."""

    token: Token
    secret: str


class JobIdentity(NamedTuple):
    """The CI job that a token is given to, and the publisher that vouches for it."""

    publisher: TrustedPublisher | None
    source: VerifiedSource


def identity_of(token: Token | None) -> JobIdentity | None:
    """Return the CI job that a token was given to, for the tokens that follow from it."""
    source = token.verified_source if token is not None else None
    return None if token is None or source is None else JobIdentity(token.publisher, source)


@transaction.atomic
def issue_token(  # noqa: PLR0913 - what a token may do is said in full by whoever issues it
    project: Project,
    *,
    name: str,
    scopes: Iterable[Scope],
    at: datetime,
    attempt: str | None = None,
    identity: JobIdentity | None = None,
    expires_at: datetime | None = None,
    actor: str = audit.SYSTEM,
) -> IssuedToken:
    """Create a token; with `attempt` it is a lane token, which writes to that attempt alone.

    With `identity` it is for that CI job, and ends when the publisher is trusted no longer.
    """
    # The prefix tells a person, and a secret scanner, what was found.
    secret = ("evl_" if attempt else "evh_") + secrets.token_urlsafe(32)
    token = Token.objects.create(
        project=project,
        digest=token_queries.secret_digest(secret),
        prefix=secret[:8],
        name=name,
        scopes=[str(scope) for scope in scopes],
        attempt=attempt,
        publisher=identity.publisher if identity is not None else None,
        source=identity.source.model_dump(mode="json") if identity is not None else None,
        made_by=actor[:200],
        created_at=at,
        expires_at=expires_at,
    )
    audit.record_audit(
        project,
        actor=actor,
        action="token.issue",
        subject=str(token),
        after={"scopes": token.scopes, "attempt": attempt, **_told(token)},
        at=at,
    )
    return IssuedToken(token, secret)


def _told(token: Token) -> dict[str, object]:
    until = token.expires_at
    return {
        **({} if token.source is None else {"source": token.source}),
        **({} if until is None else {"expires_at": rfc3339(until)}),
    }


@transaction.atomic
def revoke_token(token: Token, *, at: datetime, actor: str = audit.SYSTEM) -> None:
    """End a token at once; revoking it again changes nothing."""
    if Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=at):
        audit.record_audit(
            token.project, actor=actor, action="token.revoke", subject=str(token), at=at
        )
    token.refresh_from_db()


def touch_token(token: Token, *, at: datetime) -> None:
    """Note that a token is in use, at most every ten minutes."""
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=at - _TOUCH_EVERY)
    if token.last_used_at is None or token.last_used_at < at - _TOUCH_EVERY:
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=at)
