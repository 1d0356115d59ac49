"""Create projects."""

from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError, transaction
from pydantic import TypeAdapter, ValidationError

from evalhub.protocol.scalars import ProjectName
from evalhub.web.errors import DomainError
from lanes.projects.models import Project, Scope
from lanes.projects.operations import audit, static_tokens, tokens

_PROJECT_NAME = TypeAdapter[str](ProjectName)


class ProjectExistsError(DomainError):
    status = 409
    code = "project-exists"


class InvalidProjectError(DomainError):
    status = 422
    code = "invalid-project"


class CreatedProject(NamedTuple):
    """A project and the secret of its first token, which is not kept and cannot be shown again."""

    project: Project
    secret: str


def create_project(
    name: str,
    *,
    repository_id: int | None,
    default_branch: str,
    checks_for_unverified: bool,
    at: datetime,
    actor: str = audit.SYSTEM,
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
            audit.record_audit(
                project, actor=actor, action="project.create", subject=name, after=settings, at=at
            )
            first = tokens.issue_token(
                project,
                name="first token",
                scopes=[Scope.PROJECT_ADMIN],
                expires_at=static_tokens.latest_end(at),
                actor=actor,
                at=at,
            )
    except IntegrityError:
        raise ProjectExistsError(
            f"A project named {name} or with repository id {repository_id} exists already."
        ) from None
    return CreatedProject(project, first.secret)
