"""People's own accounts: made with an invitation, their password, the end of all their sessions."""

from datetime import datetime

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import ASCIIUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from evalhub.web.errors import DomainError
from lanes.projects.models import Membership, SignInLink
from lanes.projects.operations import audit, invitations
from lanes.projects.queries import invitations as invitation_queries


class InvalidPersonError(DomainError):
    """What was typed makes no account; `field` is where it stands."""

    status = 422
    code = "invalid-person"

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@transaction.atomic
def create_invited_person(digest: str, *, username: str, password: str, at: datetime) -> Membership:
    """Make an account for whoever holds an invitation, and accept it in its name.

    Raises:
        UnusableInvitationError: if the invitation is unknown, used, revoked or too old.
        InvalidPersonError: if the name is taken or odd, or the password too weak.
    """
    if invitation_queries.usable_invitation(digest, at=at) is None:
        raise invitations.UnusableInvitationError
    _require_free_name(username)
    _require_strong(password, User(username=username))
    try:
        with transaction.atomic():
            user = User.objects.create_user(username, password=password)
    except IntegrityError:
        raise InvalidPersonError("username", _TAKEN) from None
    record_new_person(user, way="invitation", at=at)
    return invitations.accept_invitation(digest, user, at=at)


def record_new_person(user: User, *, way: str, at: datetime) -> None:
    """Write down that there is a new account, and what opened it."""
    _record(user, "user.create", after={"way": way}, at=at)


def record_connection(user: User, *, uid: str, at: datetime) -> None:
    """Write down that a person can sign in with an account of GitHub from now on."""
    _record(user, "user.connect", after={"github": uid}, at=at)


@transaction.atomic
def change_password(user: User, *, old: str, new: str, at: datetime) -> None:
    """Give a person another password; sessions that were begun with the old one end.

    Raises:
        InvalidPersonError: if `old` is not the password that there is, or `new` is too weak.
    """
    _require_own(user, old)
    _require_strong(new, user)
    had_one = user.has_usable_password()
    user.set_password(new)
    user.save(update_fields=["password"])
    _end_links(user, at=at)
    _record(user, "user.password", before={"password": had_one}, after={"password": True}, at=at)


@transaction.atomic
def sign_out_everywhere(user: User, *, password: str, at: datetime) -> None:
    """End all sessions of a person, and the links that would begin one.

    A session is good for one hash of the password, so the same password is hashed with new salt.

    Raises:
        InvalidPersonError: if the person has a password and this is not it.
    """
    _require_own(user, password)
    user.set_password(password if user.has_usable_password() else None)
    user.save(update_fields=["password"])
    _end_links(user, at=at)
    _record(user, "user.sign_out_everywhere", at=at)


_TAKEN = "There is somebody of that name already."


def _require_free_name(username: str) -> None:
    try:
        ASCIIUsernameValidator()(username)
    except ValidationError as error:
        raise InvalidPersonError("username", " ".join(error.messages)) from None
    # Names that differ in case alone would be one person to whoever reads the audit.
    if User.objects.filter(username__iexact=username).exists():
        raise InvalidPersonError("username", _TAKEN)


def _require_strong(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidPersonError("password", " ".join(error.messages)) from None


def _require_own(user: User, password: str) -> None:
    if user.has_usable_password() and not user.check_password(password):
        raise InvalidPersonError("old", "That is not your password.")


def _end_links(user: User, *, at: datetime) -> None:
    SignInLink.objects.filter(user=user, used_at__isnull=True).update(used_at=at)


def _record(
    user: User, action: str, *, before: object = None, after: object = None, at: datetime
) -> None:
    name = user.get_username()
    audit.record_audit(
        None, actor=f"user:{name}", action=action, subject=name, before=before, after=after, at=at
    )
