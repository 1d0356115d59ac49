"""Tokens, and how secrets are kept."""

from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from evalhub.protocol.canonical import bytes_digest
from evalhub.web.errors import NotFoundError
from lanes.projects.models import Project, Token

SOON = timedelta(days=14)
"""So long before its end a token is told of: time to make another and to bring it to where it is used."""


def secret_digest(secret: str) -> str:
    """Return how a secret of 256 random bits is kept: its sha256, without the prefix."""
    return bytes_digest(secret.encode()).removeprefix("sha256:")


def token_with_secret(secret: str) -> Token | None:
    digest = secret_digest(secret)
    return Token.objects.select_related("project").filter(digest=digest).first()


def static_tokens_of(project: Project) -> QuerySet[Token]:
    """Return the tokens that people made, newest first; not those of lanes and CI jobs."""
    static = Token.objects.filter(project=project, attempt__isnull=True, publisher__isnull=True)
    return static.select_related("project").order_by("-id")


def good_tokens_of(project: Project, *, at: datetime) -> QuerySet[Token]:
    """Return the tokens that people made and that are neither revoked nor at their end."""
    has_time = Q(expires_at__isnull=True) | Q(expires_at__gt=at)
    return static_tokens_of(project).filter(has_time, revoked_at__isnull=True)


def ending_tokens_of(project: Project, *, at: datetime) -> list[Token]:
    """Return the good tokens that end soon, the next to end first."""
    ending = good_tokens_of(project, at=at).filter(expires_at__lte=at + SOON)
    return list(ending.order_by("expires_at", "-id"))


def static_token_numbered(project: Project, number: int) -> Token:
    """Return a token that somebody made for the project.

    Raises:
        NotFoundError: if there is none of that number.
    """
    token = static_tokens_of(project).filter(pk=number).first()
    if token is None:
        raise NotFoundError(f"Project {project.name} has no token {number}.")
    return token
