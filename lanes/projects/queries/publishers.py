"""Trusted publishers of a project, and who was refused."""

from django.db.models import F, QuerySet

from evalhub.protocol.identity import PublisherSettings
from evalhub.web.errors import NotFoundError
from lanes.projects.models import Project, SpeakerRefusal, TrustedPublisher


def publishers_of(project: Project) -> QuerySet[TrustedPublisher]:
    """Return the publishers that a project trusts, by workflow."""
    in_use = TrustedPublisher.objects.filter(project=project, removed_at__isnull=True)
    return in_use.select_related("project").order_by("workflow", "pk")


def publisher_numbered(project: Project, number: int) -> TrustedPublisher:
    """Return a publisher that the project trusts.

    Raises:
        NotFoundError: if it trusts none of that number.
    """
    publisher = publishers_of(project).filter(pk=number).first()
    if publisher is None:
        raise NotFoundError(f"Project {project.name} has no trusted publisher {number}.")
    return publisher


def publishers_of_repository(repository_id: int) -> list[TrustedPublisher]:
    """Return the publishers of the one project that is this repository, the oldest first."""
    in_use = TrustedPublisher.objects.filter(
        repository_id=repository_id,
        removed_at__isnull=True,
        project__repository_id=F("repository_id"),
    )
    return list(in_use.select_related("project").order_by("pk"))


def has_publishers() -> bool:
    """Return whether any project trusts anybody."""
    return TrustedPublisher.objects.filter(removed_at__isnull=True).exists()


def settings_of(publisher: TrustedPublisher) -> PublisherSettings:
    names = PublisherSettings.model_fields
    return PublisherSettings(**{name: getattr(publisher, name) for name in names})


def refusals_of(project: Project) -> QuerySet[SpeakerRefusal]:
    """Return who tried to speak for a project and was refused, newest first."""
    return SpeakerRefusal.objects.filter(project=project).order_by("-id")
