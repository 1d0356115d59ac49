"""Writes: projects, tokens, one-time links, the audit."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from pydantic import TypeAdapter, ValidationError

from evalhub.protocol.scalars import ProjectName
from evalhub.web.errors import DomainError
from lanes.projects import queries
from lanes.projects.models import AuditEntry, Project, Scope, SignInLink, Token

SYSTEM = "system"
"""The actor of what somebody did with the server's own command line."""

# Long enough to find the link again after a demo; it opens once, and whoever reads the terminal
# where it was printed owns the server anyway.
_LINK_LIFE = timedelta(hours=24)
# `last_used_at` tells a person which tokens are alive; a write for each request would be too much.
_TOUCH_EVERY = timedelta(minutes=10)
_PROJECT_NAME = TypeAdapter[str](ProjectName)


class ProjectExistsError(DomainError):
    status = 409
    code = "project-exists"


class InvalidProjectError(DomainError):
    status = 422
    code = "invalid-project"


class UnusableLinkError(DomainError):
    """One sentence for unknown, used and expired links alike."""

    status = 410
    code = "link-unusable"
    fix = "Make a new one with `manage.py sign_in_link`."


class NoSuperuserError(DomainError):
    status = 409
    code = "no-superuser"


class CreatedProject(NamedTuple):
    """A project and the secret of its first token, which is not kept and cannot be shown again."""

    project: Project
    secret: str


class IssuedToken(NamedTuple):
    """A token and its secret, which is not kept and cannot be shown again."""

    token: Token
    secret: str


def record_audit(  # noqa: PLR0913 - one argument for each column
    project: Project | None,
    *,
    actor: str,
    action: str,
    subject: str,
    before: object = None,
    after: object = None,
    at: datetime,
) -> AuditEntry:
    """Write down who changed what, in the transaction of the change."""
    return AuditEntry.objects.create(
        project=project,
        actor=actor[:200],
        action=action,
        subject=subject[:300],
        before=before,
        after=after,
        at=at,
    )


def create_project(
    name: str,
    *,
    repository_id: int | None,
    default_branch: str,
    checks_for_unverified: bool,
    at: datetime,
    actor: str = SYSTEM,
) -> CreatedProject:
    """Create a project with a first token of scope `project:admin`.

    Raises:
        InvalidProjectError: if the name is not OWNER/NAME or the branch is empty.
        ProjectExistsError: if the name or the repository id is taken.
    """
    try:
        _PROJECT_NAME.validate_python(name)
    except ValidationError:
        raise InvalidProjectError(
            f"The project's name was {name!r}; expected OWNER/NAME."
        ) from None
    if not 0 < len(default_branch) <= 255:
        raise InvalidProjectError(f"The default branch was {default_branch!r}; expected a name.")
    try:
        with transaction.atomic():
            project = Project.objects.create(
                name=name,
                repository_id=repository_id,
                default_branch=default_branch,
                checks_for_unverified=checks_for_unverified,
                created_at=at,
            )
            settings = {
                "repository_id": repository_id,
                "default_branch": default_branch,
                "checks_for_unverified": checks_for_unverified,
            }
            record_audit(
                project, actor=actor, action="project.create", subject=name, after=settings, at=at
            )
            first = issue_token(
                project, name="first token", scopes=[Scope.PROJECT_ADMIN], at=at, actor=actor
            )
    except IntegrityError:
        raise ProjectExistsError(
            f"A project named {name} or with repository id {repository_id} exists already."
        ) from None
    return CreatedProject(project, first.secret)


@transaction.atomic
def issue_token(  # noqa: PLR0913 - what a token may do is said in full by whoever issues it
    project: Project,
    *,
    name: str,
    scopes: Iterable[Scope],
    at: datetime,
    attempt: str | None = None,
    expires_at: datetime | None = None,
    actor: str = SYSTEM,
) -> IssuedToken:
    """Create a token; with `attempt` it is a lane token, which writes to that attempt alone."""
    # The prefix tells a person, and a secret scanner, what was found.
    secret = ("evl_" if attempt else "evh_") + secrets.token_urlsafe(32)
    token = Token.objects.create(
        project=project,
        digest=queries.secret_digest(secret),
        prefix=secret[:8],
        name=name,
        scopes=[str(scope) for scope in scopes],
        attempt=attempt,
        created_at=at,
        expires_at=expires_at,
    )
    record_audit(
        project,
        actor=actor,
        action="token.issue",
        subject=str(token),
        after={"scopes": token.scopes, "attempt": attempt},
        at=at,
    )
    return IssuedToken(token, secret)


@transaction.atomic
def revoke_token(token: Token, *, at: datetime, actor: str = SYSTEM) -> None:
    """End a token at once; revoking it again changes nothing."""
    if Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=at):
        record_audit(token.project, actor=actor, action="token.revoke", subject=str(token), at=at)
    token.refresh_from_db()


def touch_token(token: Token, *, at: datetime) -> None:
    """Note that a token is in use, at most every ten minutes."""
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=at - _TOUCH_EVERY)
    if token.last_used_at is None or token.last_used_at < at - _TOUCH_EVERY:
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=at)


@transaction.atomic
def create_first_sign_in_link(at: datetime) -> str:
    """Return the secret of a link that signs the server's superuser in, once.

    Where there is no user yet, creates `admin`, whose password cannot be used.

    Raises:
        NoSuperuserError: if there are users, but no active superuser among them.
    """
    user = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if user is None:
        if User.objects.exists():
            raise NoSuperuserError(
                "There are users but no active superuser.",
                fix="Make one with `manage.py createsuperuser`.",
            )
        user = User.objects.create_superuser("admin")
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(
        user=user,
        digest=queries.secret_digest(secret),
        created_at=at,
        expires_at=at + _LINK_LIFE,
    )
    return secret


@transaction.atomic
def sign_in_with_link(secret: str, *, at: datetime) -> User:
    """Use up a sign-in link and return whom it signs in.

    Raises:
        UnusableLinkError: if the link is unknown, used or too old.
    """
    link = queries.usable_link(secret, at=at)
    # Two clicks at once: the row count tells which was first.
    if link is None or not SignInLink.objects.filter(pk=link.pk, used_at__isnull=True).update(
        used_at=at
    ):
        raise UnusableLinkError("This sign-in link is unknown, was used, or is too old.")
    record_sign_in(link.user, way="link", at=at)
    return link.user


def record_sign_in(user: User, *, way: str, at: datetime) -> None:
    """Write a sign-in into the audit."""
    actor = f"user:{user.get_username()}"
    record_audit(
        None, actor=actor, action="user.sign_in", subject=user.get_username(), after=way, at=at
    )
