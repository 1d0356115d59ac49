"""Sign-in links."""

from datetime import datetime

from lanes.projects.models import SignInLink
from lanes.projects.queries import tokens


def usable_link(secret: str, *, at: datetime) -> SignInLink | None:
    """Return the sign-in link if it can still be used."""
    return SignInLink.objects.filter(
        digest=tokens.secret_digest(secret),
        used_at__isnull=True,
        expires_at__gt=at,
        user__is_active=True,
    ).first()
