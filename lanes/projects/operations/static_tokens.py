"""Tokens that a maintainer makes: each with an end, each in the list of its project."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from evalhub.protocol.identity import TokenSettings
from evalhub.web.errors import DomainError
from lanes.projects.models import Project, Scope
from lanes.projects.operations import audit, tokens
from lanes.projects.operations.tokens import IssuedToken
from lanes.projects.queries import tokens as token_queries

MOST_TOKENS = 100
"""So many that are good at once are more than a person can keep an eye on."""
DEFAULT_DAYS = 90


class InvalidTokenError(DomainError):
    status = 422
    code = "invalid-token"


class TooManyTokensError(DomainError):
    status = 409
    code = "too-many-tokens"


def default_days() -> int:
    """Return for how many days a token is good of which nobody says it."""
    return min(DEFAULT_DAYS, settings.TOKEN_DAYS)


def latest_end(at: datetime) -> datetime:
    """Return until when a token can be good that is made now."""
    return at + timedelta(days=settings.TOKEN_DAYS)


@transaction.atomic
def make_token(
    project: Project, wanted: TokenSettings, *, at: datetime, actor: str = audit.SYSTEM
) -> IssuedToken:
    """Make a token of the project; its secret is in the answer and nowhere else.

    Raises:
        InvalidTokenError: if it would be good for longer than this installation allows.
        TooManyTokensError: if the project has as many as it can have.
    """
    days = wanted.days or default_days()
    if days > settings.TOKEN_DAYS:
        raise InvalidTokenError(
            f"The token was to be good for {days} days; here a token is good for at most"
            f" {settings.TOKEN_DAYS}.",
            fix="Ask for fewer days, and make another one before it ends.",
        )
    # Two that come at once are counted one after the other.
    locked = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    if token_queries.good_tokens_of(locked, at=at).count() >= MOST_TOKENS:
        raise TooManyTokensError(
            f"The project has {MOST_TOKENS} tokens that are good.",
            fix="Revoke those that nobody uses any more.",
        )
    return tokens.issue_token(
        project,
        name=wanted.name,
        scopes=[Scope(scope) for scope in dict.fromkeys(wanted.scopes)],
        expires_at=at + timedelta(days=days),
        actor=actor,
        at=at,
    )
