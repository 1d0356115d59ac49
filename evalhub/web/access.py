"""Who may come in: people who have signed in."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from evalhub.tasks import trail

Rest = ParamSpec("Rest")
Answer = TypeVar("Answer", bound=HttpResponseBase)


def signed_in(
    view: Callable[Concatenate[HttpRequest, Rest], Answer],
) -> Callable[Concatenate[HttpRequest, Rest], Answer | HttpResponse]:
    """Have people sign in before they see the page; they come back to it afterwards.

    A part that htmx asks for leads the whole page there: a redirect would put the sign-in page into
    the place of the part.
    """

    @wraps(view)
    def guarded(
        request: HttpRequest, /, *args: Rest.args, **kwargs: Rest.kwargs
    ) -> Answer | HttpResponse:
        if request.user.is_authenticated:
            trail.bind(user=request.user.get_username())
            return view(request, *args, **kwargs)
        redirect = redirect_to_login(request.get_full_path())
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=204, headers={"HX-Redirect": redirect["Location"]})
        return redirect

    return guarded
