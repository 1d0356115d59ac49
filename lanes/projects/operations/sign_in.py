"""Sign people in: by a link that works once, and the record of each time."""

import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction

from evalhub.web.errors import DomainError
from lanes.projects.models import SignInLink
from lanes.projects.operations import audit
from lanes.projects.queries import sign_in as links
from lanes.projects.queries import tokens

# Long enough to find the link again after a demo; it opens once, and whoever reads the terminal
# where it was printed owns the server anyway.
_LINK_LIFE = timedelta(hours=24)


class UnusableLinkError(DomainError):
    """One sentence for unknown, used and expired links alike."""

    status = 410
    code = "link-unusable"
    fix = "Make a new one with `manage.py sign_in_link`."


class NoSuperuserError(DomainError):
    status = 409
    code = "no-superuser"


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
        digest=tokens.secret_digest(secret),
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
    link = links.usable_link(secret, at=at)
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
    audit.record_audit(
        None, actor=actor, action="user.sign_in", subject=user.get_username(), after=way, at=at
    )
