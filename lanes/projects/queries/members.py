"""Who may do what in a project."""

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from evalhub.web.errors import ForbiddenError, NotFoundError
from lanes.projects.models import Membership, Project, Role

_RANK = {Role.VIEWER: 1, Role.TRIAGER: 2, Role.MAINTAINER: 3}
_NOTHING = "There is nothing at this address."


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


def has_role(user: User | AnonymousUser, project: Project, role: Role) -> bool:
    """Return whether a person has at least this role."""
    has = role_of(user, project)
    return has is not None and _RANK[has] >= _RANK[role]


def project_for(user: User | AnonymousUser, name: str, role: Role) -> Project:
    """Return the project OWNER/NAME, if the person has at least this role in it.

    Raises:
        NotFoundError: to a stranger, in the same words whether the project exists or not.
        ForbiddenError: to a member whose role is too small.
    """
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise NotFoundError(_NOTHING)
    require_role(user, project, role)
    return project


def require_role(user: User | AnonymousUser, project: Project, role: Role) -> None:
    """Return if the person has at least this role in the project.

    Raises:
        NotFoundError: to a stranger, who need not learn that the project exists.
        ForbiddenError: to a member whose role is too small.
    """
    has = role_of(user, project)
    if has is None:
        raise NotFoundError(_NOTHING)
    if _RANK[has] < _RANK[role]:
        raise ForbiddenError(
            f"This takes the role {role.lower()} in {project.name}; you are {has.lower()}.",
            fix="Ask a maintainer of the project for the role.",
        )


def require_administrator(user: User | AnonymousUser) -> None:
    """Return if the person administers the whole instance.

    Raises:
        NotFoundError: to everybody else, in the words of an unknown address.
    """
    if not (isinstance(user, User) and user.is_active and user.is_superuser):
        raise NotFoundError(_NOTHING)


def memberships_of(project: Project) -> QuerySet[Membership]:
    """Return the members of a project, by their names."""
    return (
        Membership.objects.filter(project=project).select_related("user").order_by("user__username")
    )


def membership_numbered(project: Project, number: int) -> Membership:
    """Return a membership of a project.

    Raises:
        NotFoundError: if the project has none of that number.
    """
    found = memberships_of(project).filter(pk=number).first()
    if found is None:
        raise NotFoundError(f"Project {project.name} has no member {number}.")
    return found


def memberships_by(user: User) -> QuerySet[Membership]:
    """Return the memberships of a person, by the projects' names."""
    return Membership.objects.filter(user=user).select_related("project").order_by("project__name")
