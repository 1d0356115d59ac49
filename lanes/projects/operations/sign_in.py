"""Sign people in and out: how often it may be tried, links that work once, the record of each time."""

import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from evalhub.web.errors import DomainError
from lanes.projects.models import SignInLink
from lanes.projects.operations import audit, rates
from lanes.projects.queries import sign_in as links
from lanes.projects.queries import tokens

# Long enough to find the link again after a demo; it opens once, and whoever reads the terminal
# where it was printed owns the server anyway.
_LINK_LIFE = timedelta(hours=24)
# An office, or a class room, comes from one address.
_PEOPLE_AT_AN_ADDRESS = 5


class UnusableLinkError(DomainError):
    """One sentence for unknown, used and expired links alike."""

    status = 410
    code = "link-unusable"
    fix = "Make a new one with `manage.py sign_in_link`."


class GitHubRefusedError(DomainError):
    status = 403
    code = "github-refused"
    fix = "Begin again on the page where you sign in."


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


def count_try(username: str, *, address: str, at: datetime) -> None:
    """Count that somebody tries a password, whether or not there is a person of that name.

    Counted before the password is looked at: what is one too many learns nothing.

    Raises:
        TooManyRequestsError: if the address, or whoever tries that name from anywhere, did it too often.
    """
    most = settings.SIGN_IN_REQUESTS
    rates.count_request(
        f"sign-in, {rates.address_key(address)}",
        most=most * _PEOPLE_AT_AN_ADDRESS,
        at=at,
        whose="your address",
    )
    # The digest has one length, and a name can be typed into the wrong field: a password.
    digest = tokens.secret_digest(username.casefold())[:32]
    rates.count_request(f"sign-in, name {digest}", most=most, at=at, whose="people of this name")


def record_sign_in(user: User, *, way: str, at: datetime) -> None:
    """Write a sign-in into the audit."""
    actor = f"user:{user.get_username()}"
    audit.record_audit(
        None, actor=actor, action="user.sign_in", subject=user.get_username(), after=way, at=at
    )


def record_sign_out(user: User, *, at: datetime) -> None:
    """Write the end of one session into the audit."""
    name = user.get_username()
    audit.record_audit(None, actor=f"user:{name}", action="user.sign_out", subject=name, at=at)
