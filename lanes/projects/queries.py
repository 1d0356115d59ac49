"""Reads: projects, who may do what in them, who is asking."""

from datetime import datetime

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework.request import Request

from evalhub.protocol.canonical import bytes_digest
from evalhub.web.errors import ForbiddenError, NotFoundError
from lanes.projects.models import Membership, Project, Role, SignInLink, Token

_RANK = {Role.VIEWER: 1, Role.TRIAGER: 2, Role.MAINTAINER: 3}


def project_named(name: str) -> Project:
    """Return the project OWNER/NAME.

    Raises:
        NotFoundError: if there is none.
    """
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise NotFoundError(f"There is no project {name!r}.")
    return project


def projects_of(user: User | AnonymousUser) -> QuerySet[Project]:
    """Return the projects that a person may see, by name."""
    projects = Project.objects.order_by("name")
    if not isinstance(user, User) or not user.is_active:
        return projects.none()
    return projects if user.is_superuser else projects.filter(memberships__user=user)


def role_of(user: User | AnonymousUser, project: Project) -> Role | None:
    """Return a person's role; a superuser is a maintainer everywhere."""
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        return Role.MAINTAINER
    membership = Membership.objects.filter(project=project, user=user).first()
    return Role(membership.role) if membership is not None else None


def require_role(user: User | AnonymousUser, project: Project, role: Role) -> None:
    """Return if the person has at least this role in the project.

    Raises:
        NotFoundError: to a stranger, who need not learn that the project exists.
        ForbiddenError: to a member whose role is too small.
    """
    has = role_of(user, project)
    if has is None:
        raise NotFoundError("There is nothing at this address.")
    if _RANK[has] < _RANK[role]:
        raise ForbiddenError(
            f"This takes the role {role.lower()} in {project.name}; you are {has.lower()}.",
            fix="Ask a maintainer of the project for the role.",
        )


def actor_of(request: HttpRequest | Request) -> str:
    """Return who is asking, as the audit names it: `token:ab12… name` or `user:NAME`."""
    token = getattr(request, "auth", None)
    if isinstance(token, Token):
        return actor_of_token(token)
    return f"user:{request.user.get_username()}"


def actor_of_token(token: Token) -> str:
    return f"token:{token.prefix}… {token.name}"


def secret_digest(secret: str) -> str:
    """Return how a secret of 256 random bits is kept: its sha256, without the prefix."""
    return bytes_digest(secret.encode()).removeprefix("sha256:")


def token_with_secret(secret: str) -> Token | None:
    digest = secret_digest(secret)
    return Token.objects.select_related("project").filter(digest=digest).first()


def usable_link(secret: str, *, at: datetime) -> SignInLink | None:
    """Return the sign-in link if it can still be used."""
    return SignInLink.objects.filter(
        digest=secret_digest(secret),
        used_at__isnull=True,
        expires_at__gt=at,
        user__is_active=True,
    ).first()
