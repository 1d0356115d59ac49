"""GitHub's checks and issues over HTTP: create, update, find. The only module that speaks to GitHub.

Nothing here waits, repeats or raises for what GitHub or the network does: every call answers with an
outcome, and the caller's row says what happens next. Two outcomes must never be confused: `Refused`
means that nothing happened, `Unknown` means that it may have.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from ssl import SSLContext
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from django.conf import settings

TIMEOUT_SECONDS = 10.0
# What GitHub asks for when it limits without saying for how long.
_LEAST_PAUSE = timedelta(seconds=60)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_API_VERSION = "2022-11-28"
# Deleted, or transferred to another repository (which answers with where to).
_GONE = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_PER_PAGE = 100
_MOST_PAGES = 5


@dataclass(frozen=True)
class Delivered:
    """GitHub has done it; the check run, issue (by its number) or comment has this id."""

    github_id: int


@dataclass(frozen=True)
class Unknown:
    """No answer that says whether it was done: look before doing it again."""

    detail: str


@dataclass(frozen=True)
class RateLimited:
    """Nothing was done, and GitHub says when to come back."""

    detail: str
    retry_at: datetime


@dataclass(frozen=True)
class Refused:
    """Nothing was done. `may_mend` if somebody can mend it without evalhub noticing."""

    detail: str
    may_mend: bool


@dataclass(frozen=True)
class NotOurs:
    """What was to be read or changed is gone, or belongs to somebody else: only a new one will do."""

    detail: str


Failed = Unknown | RateLimited | Refused | NotOurs
Outcome = Delivered | Failed


@dataclass(frozen=True)
class CheckRun:
    """A check run as GitHub has it."""

    github_id: int
    status: str
    conclusion: str | None


@dataclass(frozen=True)
class Recognized:
    """GitHub takes the credentials; `clock` is its time, if it tells."""

    clock: datetime | None


@dataclass(frozen=True)
class Issue:
    """An issue as GitHub has it; `text` is its body, in which we put our marker."""

    number: int
    is_open: bool
    text: str


@dataclass(frozen=True)
class GitHub:
    """A connection that speaks for one delivery. `at` is its present, for relative times in answers."""

    client: httpx.Client
    at: datetime
    timeout_seconds: float

    def recognize(self) -> Recognized | Failed:
        """Ask whether GitHub takes the credentials, by a question that costs nothing."""
        answer = self._asked("GET", "/rate_limit")
        if not isinstance(answer, httpx.Response):
            return answer
        # An enterprise's GitHub may have no limits; it says so to those whom it knows.
        has_no_limits = "rate limiting is not enabled" in _said(answer).lower()
        if answer.is_success or has_no_limits:
            return Recognized(_clock(answer))
        return _failure(answer, at=self.at)

    def create(self, repository: str, body: Mapping[str, object]) -> Outcome:
        """Create a check run. GitHub makes a second one if it is asked twice."""
        return self._written("POST", f"/repos/{repository}/check-runs", body)

    def update(self, repository: str, github_id: int, body: Mapping[str, object]) -> Outcome:
        """Change a check run that this App has made."""
        return self._written("PATCH", f"/repos/{repository}/check-runs/{github_id}", body)

    def find(
        self, repository: str, *, head_sha: str, name: str, external_id: UUID
    ) -> list[CheckRun] | Failed:
        """Return the check runs of a commit that carry our id, newest first."""
        answer = self._answered(
            "GET",
            f"/repos/{repository}/commits/{head_sha}/check-runs",
            # `latest` would hide a run that a later one of the same name follows.
            params={"check_name": name, "filter": "all", "per_page": "100"},
        )
        if not isinstance(answer, dict):
            return answer
        runs = answer.get("check_runs")
        if not isinstance(runs, list):
            return Unknown("GitHub's answer holds no list of check runs.")
        wanted = str(external_id)
        ours = [_check_run(run) for run in runs if run.get("external_id") == wanted]
        return sorted(ours, key=lambda run: run.github_id, reverse=True)

    def issue(self, repository: str, number: int) -> Issue | Failed:
        """Return an issue; `NotOurs` if it was deleted or moved to another repository."""
        answer = self._answered("GET", f"/repos/{repository}/issues/{number}")
        return _issue(answer) if isinstance(answer, dict) else answer

    def issues_labelled(self, repository: str, label: str) -> list[Issue] | Failed:
        """Return the issues with a label, oldest first; at most the first five hundred."""
        given = {"labels": label, "state": "all", "sort": "created", "direction": "asc"}
        rows = self._listed(f"/repos/{repository}/issues", given)
        if not isinstance(rows, list):
            return rows
        # GitHub lists pull requests among the issues.
        found = [_issue(row) for row in rows if "pull_request" not in row]
        return [issue for issue in found if isinstance(issue, Issue)]

    def create_issue(self, repository: str, body: Mapping[str, object]) -> Outcome:
        """Create an issue. GitHub makes a second one if it is asked twice."""
        return self._written("POST", f"/repos/{repository}/issues", body, names="number")

    def update_issue(self, repository: str, number: int, body: Mapping[str, object]) -> Outcome:
        """Change an issue."""
        path = f"/repos/{repository}/issues/{number}"
        return self._written("PATCH", path, body, names="number")

    def comment(self, repository: str, number: int, text: str) -> Outcome:
        """Add a comment to an issue. GitHub adds a second one if it is asked twice."""
        path = f"/repos/{repository}/issues/{number}/comments"
        return self._written("POST", path, {"body": text})

    def find_comment(
        self, repository: str, number: int, *, marker: str, since: datetime
    ) -> int | Failed | None:
        """Return the id of the comment that holds a marker; None if no comment since then does."""
        path = f"/repos/{repository}/issues/{number}/comments"
        rows = self._listed(path, {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"})
        if not isinstance(rows, list):
            return rows
        return next((int(str(row["id"])) for row in rows if marker in str(row.get("body"))), None)

    def _written(
        self, method: str, path: str, body: Mapping[str, object], *, names: str = "id"
    ) -> Outcome:
        answer = self._answered(method, path, json=dict(body))
        if not isinstance(answer, dict):
            return answer
        github_id = answer.get(names)
        if not isinstance(github_id, int):
            return Unknown(f"GitHub's answer does not name what it has done: it has no {names!r}.")
        return Delivered(github_id)

    def _listed(self, path: str, given: Mapping[str, str]) -> list[dict[str, object]] | Failed:
        """Return a whole list, page by page."""
        rows: list[dict[str, object]] = []
        for page in range(1, _MOST_PAGES + 1):
            params = {**given, "per_page": str(_PER_PAGE), "page": str(page)}
            response = self._asked("GET", path, params=params)
            if not isinstance(response, httpx.Response):
                return response
            if not response.is_success:
                return _failure(response, at=self.at)
            found = _json(response)
            if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
                return Unknown("GitHub's answer is not a list.")
            rows += found
            if len(found) < _PER_PAGE:
                break
        return rows

    def _answered(self, method: str, path: str, **content: object) -> dict[str, object] | Failed:
        response = self._asked(method, path, **content)
        if not isinstance(response, httpx.Response):
            return response
        if response.is_success:
            return _json_object(response) or Unknown("GitHub's answer is not a JSON object.")
        return _failure(response, at=self.at)

    def _asked(self, method: str, path: str, **content: object) -> httpx.Response | Unknown:
        try:
            return self.client.request(method, path, **content)  # type: ignore[arg-type]
        except httpx.TimeoutException:
            return Unknown(f"GitHub did not answer within {self.timeout_seconds:g} seconds.")
        except httpx.TransportError as error:
            return Unknown(f"GitHub could not be reached: {error}.")


@contextmanager
def connection(*, at: datetime, timeout_seconds: float) -> Iterator[GitHub]:
    """Open a connection with the credentials of the settings."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {settings.GITHUB_TOKEN}",
        "User-Agent": "evalhub",
        "X-GitHub-Api-Version": _API_VERSION,
    }
    # A stand-in on this machine is never behind the proxy that the environment names.
    is_near = urlsplit(settings.GITHUB_API_URL).hostname in _LOOPBACK
    with httpx.Client(
        base_url=settings.GITHUB_API_URL,
        headers=headers,
        timeout=timeout_seconds,
        verify=_trusted_certificates(),
        trust_env=not is_near,
    ) as client:
        yield GitHub(client, at, timeout_seconds)


@cache
def _trusted_certificates() -> SSLContext:
    # Reading them takes longer than all the rest of a delivery on this side.
    return httpx.create_ssl_context()


def _check_run(run: Mapping[str, object]) -> CheckRun:
    conclusion = run.get("conclusion")
    return CheckRun(
        github_id=int(str(run["id"])),
        status=str(run["status"]),
        conclusion=None if conclusion is None else str(conclusion),
    )


def _issue(row: Mapping[str, object]) -> Issue | Unknown:
    number = row.get("number")
    if not isinstance(number, int):
        return Unknown("GitHub's answer is not an issue.")
    return Issue(number, is_open=row.get("state") == "open", text=str(row.get("body") or ""))


def _failure(response: httpx.Response, *, at: datetime) -> Failed:
    said = _said(response)
    retry_at = _retry_at(response, said, at=at)
    if retry_at is not None:
        return RateLimited(f"GitHub limits the rate of requests: {said}", retry_at)
    status = response.status_code
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unknown(f"GitHub answered {status}: {said}")
    if _is_gone(response) or "GitHub App that created it" in said:
        return NotOurs(f"GitHub answered {status} about what was there: {said}")
    is_issue = "/issues" in response.request.url.path
    advice = _issue_advice(status) if is_issue else _advice(status)
    return Refused(f"GitHub answered {status}: {said} {advice}", may_mend=status != 422)


def _is_gone(response: httpx.Response) -> bool:
    """Return whether a check run or issue that was named by its number is not there any more."""
    request, status = response.request, response.status_code
    if not request.url.path.rpartition("/")[2].isdecimal():
        # A list or something new is refused for other reasons: no rights, or no such repository.
        return False
    return status == HTTPStatus.NOT_FOUND or ("/issues" in request.url.path and status in _GONE)


def _issue_advice(status: int) -> str:
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return "EVALHUB_GITHUB_TOKEN is not valid, or has expired."
        case HTTPStatus.FORBIDDEN:
            return "The credentials need the permission `issues: write` on this repository."
        case HTTPStatus.NOT_FOUND | HTTPStatus.GONE:
            return (
                "The project's name must be the repository's OWNER/NAME, with issues turned on, and the"
                " credentials must be able to see it."
            )
    return "Nothing was delivered."


def _advice(status: int) -> str:
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return "EVALHUB_GITHUB_TOKEN is not valid, or has expired."
        case HTTPStatus.FORBIDDEN:
            return "The credentials need the permission `checks: write` on this repository."
        case HTTPStatus.NOT_FOUND:
            return (
                "The project's name must be the repository's OWNER/NAME, the credentials must be able "
                "to see it, and the commit must be in it."
            )
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return "The commit must be in this repository; what was sent can be read on this page."
    return "Nothing was delivered."


def _retry_at(response: httpx.Response, said: str, *, at: datetime) -> datetime | None:
    """Return when to come back if this answer is a limit; None if it is not one."""
    if response.status_code not in {HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}:
        return None
    retry_after = response.headers.get("retry-after", "")
    if retry_after.isdecimal():
        return at + timedelta(seconds=int(retry_after))
    reset = response.headers.get("x-ratelimit-reset", "")
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        # Their clock and ours may differ: never at once.
        return max(datetime.fromtimestamp(int(reset), UTC), at + timedelta(seconds=1))
    is_limit = response.status_code == HTTPStatus.TOO_MANY_REQUESTS or "rate limit" in said.lower()
    # A 403 without any sign of a limit is a missing permission.
    return at + _LEAST_PAUSE if is_limit else None


def _clock(response: httpx.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(response.headers.get("date", ""))
    except ValueError:
        return None


def _said(response: httpx.Response) -> str:
    message = (_json_object(response) or {}).get("message")
    text = message if isinstance(message, str) else response.reason_phrase
    return f"{text[:300].rstrip('.')}."


def _json_object(response: httpx.Response) -> dict[str, object] | None:
    content = _json(response)
    return content if isinstance(content, dict) else None


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return None
