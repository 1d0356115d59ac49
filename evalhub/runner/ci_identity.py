"""The identity that CI signs for a job, exchanged for a token of the store, and again before that ends.

Nothing of it is written anywhere, and the agent never sees what CI's identity is asked for with.
"""

import json
import os
import threading
import time
from collections.abc import Generator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from evalhub.runner.client import Store
from evalhub.runner.errors import InputError, StoreUnreachableError
from evalhub.runner.held_token import held

_URL, _TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_AUDIENCE = "EVALHUB_OIDC_AUDIENCE"
_ANSWER_SECONDS = 20.0
_TRIES = 3
# Renewed when this part of its life is over, so that a slow renewal is still in time.
_RENEW_AFTER = 0.8


class IdentityRequest(NamedTuple):
    """Where CI gives a job its identity, and what it is asked for with."""

    url: str
    token: str
    pause_seconds: float = 1.0
    """Between two tries, where CI does not answer."""

    def identity(self, audience: str) -> str:
        """Return a fresh identity token for this audience.

        Raises:
            InputError: if CI refuses.
            StoreUnreachableError: if it does not answer, now.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._asked_once(audience)
            except StoreUnreachableError:
                if not left:
                    raise
                time.sleep(self.pause_seconds)
        raise AssertionError("one of the tries returns or raises")

    def _asked_once(self, audience: str) -> str:
        try:
            address = httpx.URL(self.url).copy_merge_params({"audience": audience})
            answer = httpx.get(
                address,
                headers={"Authorization": f"bearer {self.token}", "Accept": "application/json"},
                timeout=_ANSWER_SECONDS,
            )
        except httpx.InvalidURL:
            raise InputError(f"{_URL} was no address; expected it as CI sets it.") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise StoreUnreachableError(
                f"CI did not give this job its identity ({reason}); try again."
            ) from None
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status_code == 429:
            raise StoreUnreachableError(
                f"CI did not give this job its identity (status {answer.status_code}); try again."
            )
        return _value(answer)


def _value(answer: httpx.Response) -> str:
    try:
        value = answer.raise_for_status().json()["value"]
    except (httpx.HTTPStatusError, ValueError, LookupError, TypeError):
        value = None
    if not isinstance(value, str) or not value:
        raise InputError(
            f"CI refused this job an identity (status {answer.status_code}); give the job"
            " `permissions: id-token: write`, or set EVALHUB_TOKEN."
        )
    return value


class CiIdentity(httpx.Auth):
    """Sends requests with a token that CI's identity was exchanged for. Safe to use from several threads."""

    def __init__(self, store_url: str, request: IdentityRequest, *, audience: str) -> None:
        self._request = request
        self._audience = audience
        self._store_url = store_url
        self._guard = threading.Lock()
        self._token: str | None = None
        self._renew_at = 0.0

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        token = self.token()
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        # What is read from a file while it is sent cannot be sent again.
        if answer.status_code == HTTPStatus.UNAUTHORIZED and isinstance(
            request.stream, httpx.ByteStream
        ):
            answer.read()
            request.headers["Authorization"] = f"Bearer {self.token(instead_of=token)}"
            yield request

    def token(self, *, instead_of: str | None = None) -> str:
        """Return a token that is good for a while; not the one that was refused.

        Raises:
            RunnerError: if CI gives no identity, or the store does not take it.
        """
        with self._guard:
            is_usable = self._token is not None and self._token != instead_of
            if self._token is None or not is_usable or time.monotonic() >= self._renew_at:
                begun = time.monotonic()
                signed = self._request.identity(self._audience)
                # A connection of its own: this one is in the middle of a request.
                with Store(self._store_url, None) as store:
                    given = store.exchange_identity(signed)
                self._token = given.access_token
                self._renew_at = begun + _RENEW_AFTER * given.expires_in
            return self._token


def found_identity(store_url: str) -> CiIdentity | None:
    """Return the identity of the CI job that this process runs in; None where it has none."""
    url, token = held(_URL), held(_TOKEN)
    if not url or not token:
        return None
    audience = os.environ.get(_AUDIENCE) or store_url.rstrip("/")
    return CiIdentity(store_url, IdentityRequest(url, token), audience=audience)


def has_identity() -> bool:
    """Return whether CI gives this job an identity."""
    return bool(held(_URL) and held(_TOKEN))


def advice_without_identity(environment: Mapping[str, str]) -> str:
    """Return what to do in a job of GitHub Actions that has neither a token nor an identity."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return ""
    if _is_from_fork(environment):
        return (
            " This pull request comes from a fork, whose jobs get no identity and no secrets. Skip the"
            " evaluation there; once the change is reviewed, a maintainer runs it by pushing the"
            " commit to a branch of the repository itself. Never check it out in pull_request_target."
        )
    return " Better, without any token: give the job `permissions: id-token: write`."


def _is_from_fork(environment: Mapping[str, str]) -> bool:
    path = environment.get("GITHUB_EVENT_PATH")
    try:
        event: Any = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        sides = [event["pull_request"][side]["repo"] for side in ("head", "base")]
        # The head's repository is null when the fork was deleted.
        head, base = ((side or {}).get("id") for side in sides)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    return bool(head != base)
