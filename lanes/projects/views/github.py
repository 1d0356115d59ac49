"""Sign in with GitHub, through django-allauth; mounted only where an OAuth app is configured.

People are known by GitHub's number for them. A name or an e-mail address there changes hands, so
neither leads to an account here. A new account opens only to whoever followed an invitation.
"""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.github import views
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from evalhub.web.errors import DomainError, ForbiddenError
from evalhub.web.views import error_response
from lanes.projects.operations import people
from lanes.projects.operations import sign_in as operations
from lanes.projects.operations.sign_in import GitHubRefusedError
from lanes.projects.queries import invitations

# A page of another site must not begin a sign-in: it takes a POST, which takes a CSRF token.
github_sign_in = never_cache(require_POST(views.oauth2_login))
github_callback = never_cache(require_safe(views.oauth2_callback))
# django-allauth knows them by these names.
urlpatterns = [
    path("", github_sign_in, name="github_login"),
    path("callback/", github_callback, name="github_callback"),
]


class SilentAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """What allauth does for accounts in general; what it would say is said by our own pages."""

    def add_message(self, *args: object, **kwargs: object) -> None:
        """Say nothing."""

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        """Refuse somebody who must not come in any more."""
        return error_response(
            request,
            GitHubRefusedError("This account is closed.", fix="Ask whoever runs this server."),
        )

    def login(self, request: HttpRequest, user: User) -> None:
        """Sign a person in, and write it down."""
        super().login(request, user)
        operations.record_sign_in(user, way="github", at=timezone.now())


class GitHubAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Who may come in by GitHub."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse whoever is neither known nor invited; forget the addresses that GitHub tells.

        Raises:
            ImmediateHttpResponse: with the refusal as a page.
        """
        sociallogin.email_addresses = []
        if sociallogin.is_existing:
            return
        sociallogin.user.email = ""
        is_connecting = sociallogin.state.get("process") == "connect"
        if is_connecting and isinstance(request.user, User):
            # The connection follows at once, or fails with an exception.
            people.record_connection(request.user, uid=sociallogin.account.uid, at=timezone.now())
            return
        if is_connecting or not _is_invited(request):
            raise _refusal(
                request,
                ForbiddenError(
                    "No account here belongs to this account of GitHub.",
                    fix="Follow an invitation, or sign in by password and connect GitHub on the page"
                    " of your account.",
                ),
            )

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Return whether a new account may be made: `pre_social_login` has looked."""
        return _is_invited(request)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Make the account of somebody who was invited."""
        user: User = super().save_user(request, sociallogin, form)
        people.record_new_person(user, way=f"github {sociallogin.account.uid}", at=timezone.now())
        return user

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: object) -> str:
        """Return to the page of the account."""
        return reverse("account")

    def on_authentication_error(
        self, request: HttpRequest, *args: object, **kwargs: object
    ) -> None:
        """Say that GitHub gave no identity.

        Raises:
            ImmediateHttpResponse: with that as a page.
        """
        raise _refusal(request, GitHubRefusedError("GitHub did not say who you are."))


def _is_invited(request: HttpRequest) -> bool:
    return invitations.followed_invitation(request, at=timezone.now()) is not None


def _refusal(request: HttpRequest, error: DomainError) -> ImmediateHttpResponse:
    response: HttpResponse = error_response(request, error)
    return ImmediateHttpResponse(response)
