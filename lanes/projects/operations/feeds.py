"""Secret addresses of feeds: made, replaced and revoked by the person whose they are."""

import secrets
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from lanes.projects.models import FeedLink, Project
from lanes.projects.operations import audit
from lanes.projects.queries import feeds, tokens


@transaction.atomic
def make_feed_link(user: User, project: Project, *, at: datetime) -> str:
    """Return the secret of a new address, which is not kept and cannot be shown again.

    The one before it stops working.
    """
    # Two presses at once take turns, so that the later one replaces the earlier.
    User.objects.select_for_update().get(pk=user.pk)
    revoke_feed_link(user, project, at=at)
    # The prefix tells a person, and a secret scanner, what was found.
    secret = f"evf_{secrets.token_urlsafe(32)}"
    FeedLink.objects.create(
        user=user, project=project, digest=tokens.secret_digest(secret), created_at=at
    )
    _record(user, project, action="feed.make", at=at)
    return secret


@transaction.atomic
def revoke_feed_link(user: User, project: Project, *, at: datetime) -> None:
    """End a person's secret address; without one nothing changes."""
    if feeds.feed_links_in_use(user, project).update(revoked_at=at):
        _record(user, project, action="feed.revoke", at=at)


def _record(user: User, project: Project, *, action: str, at: datetime) -> None:
    name = user.get_username()
    audit.record_audit(project, actor=f"user:{name}", action=action, subject=name, at=at)
