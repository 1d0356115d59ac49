"""Who is asking: bearer tokens of the API, and what each may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from evalhub.tasks import trail
from evalhub.web.client_address import client_address
from evalhub.web.errors import DomainError, ForbiddenError
from lanes.projects.models import Project, Scope, Token
from lanes.projects.operations import refusals, tokens
from lanes.projects.queries import tokens as token_queries


class UnauthenticatedError(DomainError):
    status = 401
    code = "not-authenticated"
    fix = "Send a valid token in the header `Authorization: Bearer …`."


@dataclass(frozen=True)
class Bearer:
    """The user of an API request: whoever holds the token."""

    token: Token
    is_authenticated: bool = True


class TokenAuthentication(BaseAuthentication):
    """Read `Authorization: Bearer …`; a request without a good token goes no further.

    A view that is open to all sets its own `authentication_classes`.
    """

    def authenticate(self, request: Request) -> tuple[Bearer, Token]:
        token = token_of(request)
        return Bearer(token), token


def token_of(request: Request | HttpRequest) -> Token:
    """Return the good token that a request carries, and note its use.

    Raises:
        UnauthenticatedError: if there is none, or it is unknown, revoked or expired.
    """
    token = _good_token(request)
    trail.bind(token=token.prefix)
    if token.attempt is None:
        # A lane token's use shows in its attempt; writing it here too would cost each segment.
        tokens.touch_token(token, at=timezone.now())
    return token


def _good_token(request: Request | HttpRequest) -> Token:
    header = str(request.headers.get("Authorization", ""))
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise UnauthenticatedError("The request carries no bearer token.")
    token = token_queries.token_with_secret(secret.strip())
    if token is None:
        raise UnauthenticatedError("The token is not known here.")
    if token.revoked_at is not None:
        raise UnauthenticatedError(f"The token {token.prefix}… was revoked.")
    if token.expires_at is not None and token.expires_at <= timezone.now():
        raise UnauthenticatedError(f"The token {token.prefix}… expired.")
    return token


def require_scope(request: Request, scope: Scope, *, project: Project | str) -> Token:
    """Return the request's token if it belongs to the project and has the scope.

    `project:admin` includes the other scopes. Lane tokens are never enough: see `require_attempt`.

    Raises:
        ForbiddenError: otherwise, in a sentence that does not tell whether the project exists.
    """
    return require_any_scope(request, scope, project=project)


def require_any_scope(request: Request, *scopes: Scope, project: Project | str) -> Token:
    """Return the request's token as `require_scope` does, if it has one of the scopes."""
    token = bearer_token(request)
    try:
        return checked_token(token, *scopes, project=project)
    except ForbiddenError as error:
        note_refusal(request, token, error)
        raise


def checked_token(token: Token, *scopes: Scope, project: Project | str) -> Token:
    """Return the token if `require_any_scope` would take it."""
    wanted = " or ".join(scopes)
    name = project if isinstance(project, str) else project.name
    if token.project.name != name:
        raise ForbiddenError(
            f"The token belongs to project {token.project.name} and opens no other.",
            fix="Use a token of the project that the request is about.",
        )
    if token.attempt is not None:
        raise ForbiddenError(
            f"The token is the lane token of {token.attempt} and only writes to that attempt.",
            fix=f"Use a token with the scope {wanted}.",
        )
    if not {Scope.PROJECT_ADMIN.value, *(scope.value for scope in scopes)} & set(token.scopes):
        raise ForbiddenError(
            f"The token has {_listed(token.scopes)}; this takes {wanted}.",
            fix=_fix_of_scope(token, wanted, scopes),
        )
    return token


def require_attempt(request: Request, attempt: str) -> Token:
    """Return the request's token if it is the lane token of this attempt.

    Raises:
        ForbiddenError: otherwise.
    """
    token = bearer_token(request)
    if token.attempt != attempt:
        error = ForbiddenError(
            f"The token is not the lane token of attempt {attempt!r}.",
            fix="Use the token that came with the attempt when it was opened.",
        )
        note_refusal(request, token, error)
        raise error
    return token


@contextmanager
def noting_refusals(request: Request) -> Iterator[None]:
    """Note a refusal of rights that is raised inside; it goes on its way to the asker."""
    try:
        yield
    except DomainError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            note_refusal(request, bearer_token(request), error)
        raise


def note_refusal(request: Request, token: Token, error: DomainError) -> None:
    """Have the project's maintainers see that a lane or a CI job tried what is not its own.

    What a static token lacks is between it and whoever made it. To be called outside of a transaction.
    """
    if token.attempt is not None or token.source is not None:
        refusals.record_token_refusal(
            token, error, address=client_address(request), at=timezone.now()
        )


def bearer_token(request: Request) -> Token:
    """Return the token of an authenticated API request."""
    token = request.auth
    if not isinstance(token, Token):
        raise UnauthenticatedError("The request carries no bearer token.")
    return token


def _fix_of_scope(token: Token, wanted: str, scopes: tuple[Scope, ...]) -> str:
    if token.source is not None and Scope.DOCUMENT_WRITE in scopes:
        return (
            "Register suite and policy from the project's protected default branch, by a trusted"
            " publisher that may put documents, or have a maintainer do it."
        )
    return f"Use a token with the scope {wanted}."


def _listed(scopes: list[str]) -> str:
    return f"the scope {', '.join(scopes)}" if scopes else "no scope"
