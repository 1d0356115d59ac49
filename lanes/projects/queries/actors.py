"""Who is asking, in the words of the audit."""

from django.http import HttpRequest
from rest_framework.request import Request

from lanes.projects.models import Token


def actor_of(request: HttpRequest | Request) -> str:
    """Return who is asking, as the audit names it: `token:ab12… name` or `user:NAME`."""
    token = getattr(request, "auth", None)
    if isinstance(token, Token):
        return actor_of_token(token)
    return f"user:{request.user.get_username()}"


def actor_of_token(token: Token) -> str:
    return f"token:{token.prefix}… {token.name}"
