"""Secret addresses of feeds."""

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from lanes.projects.models import FeedLink, Project
from lanes.projects.queries import tokens


def feed_links_in_use(user: User | AnonymousUser, project: Project) -> QuerySet[FeedLink]:
    """Return the secret address that a person has for a project's feed, if there is one."""
    return FeedLink.objects.filter(user=user.pk, project=project, revoked_at__isnull=True)


def reader_with_secret(secret: str, project_name: str) -> User | None:
    """Return whose secret address this is; None if it is unknown, revoked or of another project."""
    links = FeedLink.objects.select_related("user").filter(
        digest=tokens.secret_digest(secret), project__name=project_name, revoked_at__isnull=True
    )
    link = links.first()
    return link.user if link is not None else None
