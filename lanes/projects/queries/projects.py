"""Projects by name."""

from evalhub.web.errors import NotFoundError
from lanes.projects.models import Project


def project_named(name: str) -> Project:
    """Return the project OWNER/NAME.

    Raises:
        NotFoundError: if there is none.
    """
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise NotFoundError(f"There is no project {name!r}.")
    return project
