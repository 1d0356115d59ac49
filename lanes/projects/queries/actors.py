"""Who is asking, in the words of the audit."""

from django.contrib.auth.models import User
from django.http import HttpRequest
from rest_framework.request import Request

from evalhub.web.errors import ForbiddenError
from lanes.projects.models import Token


def actor_of(request: HttpRequest | Request) -> str:
    """Return who is asking, as the audit names it: `token:ab12… name` or `user:NAME`."""
    token = getattr(request, "auth", None)
    if isinstance(token, Token):
        return actor_of_token(token)
    return f"user:{request.user.get_username()}"


def actor_of_token(token: Token) -> str:
    return f"token:{token.prefix}… {token.name}"


def person_of(request: HttpRequest) -> User:
    """Return the person who is signed in.

    Raises:
        ForbiddenError: if nobody is; pages have people sign in before.
    """
    if not isinstance(request.user, User):
        raise ForbiddenError("Nobody is signed in.")
    return request.user
