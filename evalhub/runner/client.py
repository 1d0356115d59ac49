"""The store over HTTP: each endpoint as a method, each refusal as a sentence."""

import base64
import ipaddress
import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from evalhub import __version__
from evalhub.protocol.export import RUNS_HEADER
from evalhub.protocol.identity import JWT_TYPE, TOKEN_EXCHANGE, ExchangedToken
from evalhub.protocol.messages import (
    Heartbeat,
    HeartbeatAnswer,
    OpenedAttempt,
    Registered,
    SealAnswer,
    SealRequest,
    TokenAnswer,
)
from evalhub.protocol.segments import Receipt
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import InputError, StoreUnreachableError
from evalhub.runner.refusals import refusal
from evalhub.runner.store_clock import StoreClock

Model = TypeVar("Model", bound=BaseModel)

_TIMEOUT = httpx.Timeout(30, connect=10)
# A segment may wait for its turn on a busy server, and its bytes on a slow line.
_UPLOAD_TIMEOUT = httpx.Timeout(120, connect=10)
# All of an archive is read several times before it is answered.
_IMPORT_TIMEOUT = httpx.Timeout(1800, connect=10)
_POLL_SLACK_SECONDS = 30


class OpenedAtStore(NamedTuple):
    """An opened attempt and the store's own clock, as its answer gave it (None if it did not)."""

    attempt: OpenedAttempt
    store_date: str | None


class Downloaded(NamedTuple):
    """How much came, and how many runs there were to be, where that was told."""

    size_bytes: int
    runs: int | None


class Answered(NamedTuple):
    """An answer of which the status says something, too."""

    status: int
    document: JsonObject


class Store:
    """A connection to one evalhub server, for a `with` block. Safe to use from several threads.

    Every method raises StoreUnreachableError (exit code 4) when there is no answer or the server
    cannot work, and StoreRefusedError when it says no.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        clock: StoreClock | None = None,
        auth: httpx.Auth | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InputError(
                f"EVALHUB_URL was {url!r}; expected an address such as https://evalhub.example.com."
            )
        self.url = url.rstrip("/")
        self.clock = clock or StoreClock()
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"User-Agent": f"evalhub/{__version__}", "Accept": "application/json"},
            timeout=_TIMEOUT,
            auth=auth,
            # A machine's proxy must not stand between a person and a store on the same machine.
            trust_env=not _is_loopback(parts.hostname),
        )
        if token:
            self.use_token(token)

    def use_token(self, token: str) -> None:
        """Send another token from now on."""
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InputError("EVALHUB_TOKEN has characters that no token has; copy it again.")
        self._client.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def schemas(self) -> JsonObject:
        """Return where the forms of documents are; anybody may ask, so it shows whether this is evalhub."""
        return self._json(self._request("GET", "/schema/"))

    def exchange_identity(self, identity: str) -> ExchangedToken:
        """Give the identity that CI signed for this job for a token of the store."""
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": identity,
            "subject_token_type": JWT_TYPE,
        }
        return _model(ExchangedToken, self._request("POST", "/token", data=form))

    # Project

    def put_suite(self, project: str, document: bytes) -> JsonObject:
        return self._json(self._put(f"/projects/{_project(project)}/suite", document))

    def put_policy(self, project: str, document: bytes) -> JsonObject:
        return self._json(self._put(f"/projects/{_project(project)}/policy", document))

    def put_pool(self, project: str, pool: str, document: bytes) -> JsonObject:
        return self._json(
            self._put(f"/projects/{_project(project)}/pools/{quote(pool, safe='')}", document)
        )

    def storage(self, project: str) -> JsonObject:
        return self._json(self._request("GET", f"/projects/{_project(project)}/storage"))

    def put_retention(self, project: str, document: bytes) -> JsonObject:
        return self._json(self._put(f"/projects/{_project(project)}/retention", document))

    def put_schedule(self, project: str, suite: str, document: bytes) -> JsonObject:
        return self._json(self._put(_schedule(project, suite), document))

    def schedules(self, project: str) -> JsonObject:
        return self._json(self._request("GET", f"/projects/{_project(project)}/schedules"))

    def remove_schedule(self, project: str, suite: str) -> None:
        self._request("DELETE", _schedule(project, suite))

    def policy(self, project: str) -> JsonObject:
        return self._json(self._request("GET", f"/projects/{_project(project)}/policy"))

    def suite(self, project: str, name: str) -> JsonObject:
        path = f"/projects/{_project(project)}/suite"
        return self._json(self._request("GET", path, params={"name": name}))

    def tokens(self, project: str) -> JsonObject:
        path = f"/projects/{_project(project)}/tokens"
        return self._json(self._request("GET", path, params={"limit": 200}))

    def make_token(self, project: str, document: JsonObject) -> JsonObject:
        path = f"/projects/{_project(project)}/tokens"
        return self._json(self._request("POST", path, json=document))

    def revoke_token(self, project: str, number: int) -> None:
        self._request("DELETE", f"/projects/{_project(project)}/tokens/{number}")

    def publishers(self, project: str) -> JsonObject:
        return self._json(self._request("GET", f"/projects/{_project(project)}/publishers"))

    def trust_publisher(self, project: str, document: JsonObject) -> JsonObject:
        path = f"/projects/{_project(project)}/publishers"
        return self._json(self._request("POST", path, json=document))

    def adopt(self, project: str, document: JsonObject) -> JsonObject:
        path = f"/projects/{_project(project)}/baselines"
        return self._json(self._request("POST", path, json=document))

    def baselines(self, project: str) -> JsonObject:
        return self._json(self._request("GET", f"/projects/{_project(project)}/baselines"))

    # Plans

    def register(self, document: bytes) -> Registered:
        answer = self._request(
            "POST", "/plans", content=document, headers={"Content-Type": "application/json"}
        )
        return _model(Registered, answer)

    def plan(self, digest: str) -> JsonObject:
        return self._json(self._request("GET", f"/plans/{_digest(digest)}"))

    def plans(self, parameters: Mapping[str, str | int]) -> JsonObject:
        return self._json(self._request("GET", "/plans", params=dict(parameters)))

    def close_plan(self, digest: str) -> JsonObject:
        return self._json(self._request("POST", f"/plans/{_digest(digest)}/close"))

    def reopen_plan(self, digest: str) -> JsonObject:
        return self._json(self._request("POST", f"/plans/{_digest(digest)}/reopen"))

    def cancel_plan(self, digest: str, *, reason: str) -> JsonObject:
        body = {"reason": reason}
        return self._json(self._request("POST", f"/plans/{_digest(digest)}/cancel", json=body))

    def conclusion(self, digest: str, *, wait_seconds: int) -> Answered:
        """Return the conclusion, or with status 202 the state of a plan that has none yet."""
        answer = self._request(
            "GET",
            f"/plans/{_digest(digest)}/conclusion",
            params={"wait": wait_seconds},
            timeout=httpx.Timeout(wait_seconds + _POLL_SLACK_SECONDS, connect=10),
        )
        return Answered(answer.status_code, self._json(answer))

    def download(self, digest: str, *, form: str, into: BinaryIO) -> Downloaded:
        """Write the export of a plan into a file, piece by piece."""
        path, size = f"/plans/{_digest(digest)}/export", 0
        try:
            with self._client.stream(
                "GET", path, params={"form": form}, timeout=_UPLOAD_TIMEOUT
            ) as answer:
                if answer.status_code >= HTTPStatus.BAD_REQUEST:
                    answer.read()
                    raise refusal(answer, self.url)
                runs = answer.headers.get(RUNS_HEADER, "")
                for piece in answer.iter_bytes():
                    size += into.write(piece)
        except httpx.HTTPError as error:
            raise StoreUnreachableError(
                f"The store at {self.url} broke off after {size} bytes"
                f" ({str(error) or type(error).__name__}); try the same again."
            ) from None
        return Downloaded(size, int(runs) if runs.isascii() and runs.isdecimal() else None)

    def import_archive(self, project: str, file: BinaryIO, *, sha256: str) -> JsonObject:
        """Send the archive of a plan; `sha256` is its digest in hexadecimal."""
        return self._json(
            self._request(
                "POST",
                f"/projects/{_project(project)}/imports",
                content=file,
                headers={
                    "Content-Type": "application/zip",
                    "Content-Digest": _content_digest(sha256),
                    "Content-Length": str(_length(file)),
                },
                timeout=_IMPORT_TIMEOUT,
            )
        )

    def pin(self, digest: str, document: JsonObject) -> JsonObject:
        return self._json(self._request("PUT", f"/plans/{_digest(digest)}/pin", json=document))

    def unpin(self, digest: str) -> JsonObject:
        return self._json(self._request("DELETE", f"/plans/{_digest(digest)}/pin"))

    def purge(self, digest: str, document: JsonObject) -> JsonObject:
        return self._json(self._request("POST", f"/plans/{_digest(digest)}/purges", json=document))

    def purges(self, digest: str) -> JsonObject:
        return self._json(self._request("GET", f"/plans/{_digest(digest)}/purges"))

    # Attempts

    def open_attempt(self, digest: str, lane: str) -> OpenedAtStore:
        path = f"/plans/{_digest(digest)}/lanes/{quote(lane, safe='')}/attempts"
        answer = self._request("POST", path)
        return OpenedAtStore(_model(OpenedAttempt, answer), answer.headers.get("Date"))

    def renew(self, attempt: str) -> TokenAnswer:
        return _model(TokenAnswer, self._request("POST", f"/attempts/{attempt}/token"))

    def heartbeat(self, attempt: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        body = heartbeat.model_dump(mode="json")
        answer = self._request("POST", f"/attempts/{attempt}/heartbeat", json=body)
        return _model(HeartbeatAnswer, answer)

    def put_segment(self, attempt: str, seq: int, path: Path, *, sha256: str) -> Receipt:
        """Send one segment file; `sha256` is its digest in hexadecimal."""
        headers = {"Content-Type": "application/zip", "Content-Digest": _content_digest(sha256)}
        with path.open("rb") as file:
            answer = self._request(
                "PUT",
                f"/attempts/{attempt}/segments/{seq}",
                content=file,
                headers=headers,
                timeout=_UPLOAD_TIMEOUT,
            )
        return _model(Receipt, answer)

    def seal(self, attempt: str, request: SealRequest) -> SealAnswer:
        body = request.model_dump(mode="json")
        return _model(SealAnswer, self._request("POST", f"/attempts/{attempt}/seal", json=body))

    # Runs

    def runs(self, parameters: Mapping[str, str | int]) -> JsonObject:
        return self._json(self._request("GET", "/runs", params=dict(parameters)))

    def run(self, run: int) -> JsonObject:
        return self._json(self._request("GET", f"/runs/{run}"))

    def transcript(self, run: int, *, start: int, limit: int) -> JsonObject:
        parameters = {"from": start, "limit": limit}
        return self._json(self._request("GET", f"/runs/{run}/transcript", params=parameters))

    def _put(self, path: str, document: bytes) -> httpx.Response:
        return self._request(
            "PUT", path, content=document, headers={"Content-Type": "application/json"}
        )

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, path, **arguments)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise StoreUnreachableError(
                f"The store at {self.url} did not answer ({reason}); "
                "check EVALHUB_URL and that the server runs."
            ) from None
        self.clock.hear(answer.headers.get("Date"))
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            raise refusal(answer, self.url)
        return answer

    def _json(self, answer: httpx.Response) -> JsonObject:
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise StoreUnreachableError(
                f"The store at {self.url} answered something that is not evalhub's JSON; "
                "check that EVALHUB_URL is the address of an evalhub server."
            )
        return document


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _project(name: str) -> str:
    if name.count("/") != 1:
        raise InputError(f"The project was {name!r}; expected OWNER/NAME.")
    return quote(name)


def _schedule(project: str, suite: str) -> str:
    return f"/projects/{_project(project)}/schedules/{quote(suite, safe='')}"


def _digest(text: str) -> str:
    return quote(text, safe=":")


def _content_digest(sha256: str) -> str:
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def _length(file: BinaryIO) -> int:
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    return length


def _model(model: type[Model], answer: httpx.Response) -> Model:
    try:
        # A newer server may say more than this client knows: that is no reason to stop.
        return model.model_validate_json(answer.content, extra="ignore")
    except ValidationError as error:
        raise StoreUnreachableError(
            f"The store answered {answer.request.method} {answer.request.url.path} with something "
            f"that is not a {model.__name__} ({error.error_count()} faults); "
            "check that EVALHUB_URL is an evalhub server of this client's version."
        ) from None
