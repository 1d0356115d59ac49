"""Query parameters of pages and endpoints, each refused in one sentence when it is not what it should be."""

from collections.abc import Sequence

from django.http import HttpRequest

from evalhub.web.errors import DomainError

_LARGEST = 2**53 - 1


class BadParameterError(DomainError):
    status = 400
    code = "bad-parameter"


def whole_number(
    request: HttpRequest, name: str, *, default: int | None = None, most: int = _LARGEST
) -> int | None:
    """Return the parameter `name` as a number from 1 to `most`; `default` where it is absent.

    Raises:
        BadParameterError: if it is anything else.
    """
    text = request.GET.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and 1 <= int(text) <= most):
        raise BadParameterError(
            f"The parameter {name!r} was {text[:40]!r}; it takes a whole number from 1 to {most}."
        )
    return int(text)


def number_or(request: HttpRequest, name: str, default: int, *, most: int = _LARGEST) -> int:
    """Return the parameter `name` as `whole_number` does, where there always is a number."""
    found = whole_number(request, name, default=default, most=most)
    return default if found is None else found


def one_of(request: HttpRequest, name: str, default: str, *, among: Sequence[str]) -> str:
    """Return the parameter `name`, one of a few words; `default` where it is absent.

    Raises:
        BadParameterError: if it is anything else.
    """
    text = request.GET.get(name, "") or default
    if text not in among:
        raise BadParameterError(
            f"The parameter {name!r} was {text[:40]!r}; it takes {' or '.join(among)}."
        )
    return text


def query_with(request: HttpRequest, **changes: int | str | None) -> str:
    """Return the request's query string with some parameters changed; None and "" remove one."""
    query = request.GET.copy()
    for name, value in changes.items():
        if value is None or value == "":
            query.pop(name, None)
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}"
