"""A stand-in for GitHub's checks and issues API over real HTTP, for the demo and for tests.

It keeps check runs and issues in memory, writes every request to a file of JSON lines, and can be told to fail:
`POST /_faults {"after_commit_timeout": 1}` commits the next write and withholds its answer,
`{"status": 503, "times": 2}` refuses the next two requests before anything is done.
"""

import argparse
import asyncio
import hmac
import json
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evalhub.demo import github_issues
from evalhub.demo.check_rules import JsonObject, faults
from evalhub.demo.github_issues import Issues
from evalhub.demo.transcript import timestamp
from evalhub.runner import clock
from evalhub.runner.simulator.death import die_with_parent

APP_ID = 424242
_FIRST_ID = 61_000_001


@dataclass
class Faults:
    """What is to go wrong next, and how often."""

    after_commit_timeout: int = 0
    hold_seconds: float = 60.0
    status: int = 503
    times: int = 0
    retry_after: int | None = None


class Repository(NamedTuple):
    owner: str
    name: str


class Entry(NamedTuple):
    """One request for the log."""

    method: str
    path: str
    query: str
    body: object
    status: int | None


@dataclass
class StandIn:
    """Check runs and issues by repository, oldest first, and the log of all requests."""

    token: str
    log: Path
    runs: dict[Repository, list[JsonObject]] = field(default_factory=dict)
    issues: dict[Repository, Issues] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    last_id: int = _FIRST_ID - 1

    def write_log(self, entry: Entry) -> None:
        """Append one line; `status` null stands for an answer that was withheld."""
        line = {"at": timestamp(clock.now()), **entry._asdict()}
        with self.log.open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def create(self, repository: Repository, document: JsonObject) -> JsonObject:
        """Add a check run. Equal requests make two: GitHub knows no key of ours."""
        self.last_id += 1
        address = f"/{repository.owner}/{repository.name}/runs/{self.last_id}"
        run: JsonObject = {
            "id": self.last_id,
            "status": "queued",
            "conclusion": None,
            "started_at": timestamp(clock.now()),
            "completed_at": None,
            "external_id": "",
            "details_url": None,
            "output": {"title": None, "summary": None, "text": None, "annotations_count": 0},
            "html_url": f"https://github.com{address}",
            "app": {"id": APP_ID, "slug": "evalhub-standin"},
        }
        self.runs.setdefault(repository, []).append(run)
        return change(run, document)


def change(run: JsonObject, document: JsonObject) -> JsonObject:
    """Apply a valid body to a check run."""
    given = dict(document)
    given.pop("actions", None)
    output = given.pop("output", None)
    run.update(given)
    if output is not None:
        count = run["output"]["annotations_count"] + len(output.get("annotations", []))
        kept = {name: output.get(name) for name in ("title", "summary", "text")}
        run["output"] = {**kept, "annotations_count": count}
    if given.get("conclusion") is not None:
        # A conclusion completes the run; a later one keeps the time of the first.
        run["status"] = "completed"
        run["completed_at"] = run["completed_at"] or timestamp(clock.now())
    elif given.get("status") in {"queued", "in_progress"}:
        run.update(conclusion=None, completed_at=None)
    return run


def build_app(standin: StandIn) -> Starlette:
    """Return the ASGI application of one stand-in."""
    base = "/repos/{owner}/{repo}"
    endpoints = [
        Route(f"{base}/check-runs", _Endpoint(standin, _create), methods=["POST"]),
        Route(f"{base}/check-runs/{{id:int}}", _Endpoint(standin, _change), methods=["PATCH"]),
        Route(f"{base}/check-runs/{{id:int}}", _Endpoint(standin, _read), methods=["GET"]),
        Route(f"{base}/commits/{{ref}}/check-runs", _Endpoint(standin, _list), methods=["GET"]),
        Route(f"{base}/issues", _Endpoint(standin, _create_issue), methods=["POST"]),
        Route(f"{base}/issues", _Endpoint(standin, _list_issues), methods=["GET"]),
        Route(f"{base}/issues/{{id:int}}", _Endpoint(standin, _read_issue), methods=["GET"]),
        Route(f"{base}/issues/{{id:int}}", _Endpoint(standin, _change_issue), methods=["PATCH"]),
        Route(f"{base}/issues/{{id:int}}", _Endpoint(standin, _delete_issue), methods=["DELETE"]),
        Route(f"{base}/issues/{{id:int}}/comments", _Endpoint(standin, _comment), methods=["POST"]),
        Route(f"{base}/issues/{{id:int}}/comments", _Endpoint(standin, _comments), methods=["GET"]),
        Route("/rate_limit", _limits(standin), methods=["GET"]),
        Route("/_faults", _faults_endpoint(standin), methods=["POST"]),
        Route("/", _front_page(standin), methods=["GET"]),
    ]
    return Starlette(routes=endpoints)


_BAD_CREDENTIALS = {"message": "Bad credentials"}


def _is_known(request: Request, standin: StandIn) -> bool:
    given = request.headers.get("authorization", "").partition(" ")[2]
    return hmac.compare_digest(given.encode(), standin.token.encode())


def _limits(standin: StandIn) -> Callable[[Request], Response]:
    def limits(request: Request) -> Response:
        if not _is_known(request, standin):
            return JSONResponse(_BAD_CREDENTIALS, 401)
        core = {"limit": 5000, "remaining": 4999, "used": 1}
        return JSONResponse({"resources": {"core": core}, "rate": core})

    return limits


class _Answer(NamedTuple):
    status: int
    body: Any
    is_write: bool = False


class _Endpoint:
    """Token, faults and log around one handler."""

    def __init__(self, standin: StandIn, handler: Any) -> None:
        self.standin = standin
        self.handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response = await self._response(request)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        body = await _json_body(request)
        answer = self._answer(request, body)
        plan = self.standin.faults
        is_withheld = answer.is_write and plan.after_commit_timeout > 0
        self.standin.write_log(
            Entry(
                request.method,
                request.url.path,
                request.url.query,
                body,
                None if is_withheld else answer.status,
            )
        )
        if is_withheld:
            plan.after_commit_timeout -= 1
            await _hold(request, plan.hold_seconds)
            return _message(504, "The answer was lost.")
        headers = {}
        if answer.status in {403, 429, 503} and plan.retry_after is not None:
            headers["Retry-After"] = str(plan.retry_after)
        return JSONResponse(answer.body, answer.status, headers)

    def _answer(self, request: Request, body: object) -> _Answer:
        if not _is_known(request, self.standin):
            return _Answer(401, _BAD_CREDENTIALS)
        if self.standin.faults.times > 0:
            self.standin.faults.times -= 1
            return _Answer(self.standin.faults.status, {"message": "A fault that was asked for."})
        repository = Repository(request.path_params["owner"], request.path_params["repo"])
        answer: _Answer = self.handler(self.standin, repository, request, body)
        return answer


def _create(standin: StandIn, repository: Repository, _: Request, body: object) -> _Answer:
    found = faults(body, is_new=True)
    if found or not isinstance(body, dict):
        return _refused(found)
    return _Answer(201, standin.create(repository, body), is_write=True)


def _change(standin: StandIn, repository: Repository, request: Request, body: object) -> _Answer:
    run = _run_with_id(standin, repository, request)
    if run is None:
        return _Answer(404, {"message": "Not Found"})
    found = faults(body, is_new=False)
    if found or not isinstance(body, dict):
        return _refused(found)
    return _Answer(200, change(run, body), is_write=True)


def _read(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    run = _run_with_id(standin, repository, request)
    return _Answer(404, {"message": "Not Found"}) if run is None else _Answer(200, run)


def _list(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    query = request.query_params
    ref = request.path_params["ref"]
    rows = [run for run in standin.runs.get(repository, []) if run["head_sha"] == ref]
    if "check_name" in query:
        rows = [run for run in rows if run["name"] == query["check_name"]]
    if "status" in query:
        rows = [run for run in rows if run["status"] == query["status"]]
    if query.get("app_id", str(APP_ID)) != str(APP_ID):
        rows = []
    if query.get("filter", "latest") == "latest":
        rows = list({run["name"]: run for run in rows}.values())
    rows.sort(key=lambda run: int(run["id"]), reverse=True)
    page = github_issues.page_of(rows, query)
    return _Answer(200, {"total_count": len(rows), "check_runs": page})


def _run_with_id(standin: StandIn, repository: Repository, request: Request) -> JsonObject | None:
    wanted = request.path_params["id"]
    rows = standin.runs.get(repository, [])
    return next((run for run in rows if run["id"] == wanted), None)


def _issues_of(standin: StandIn, repository: Repository) -> Issues:
    return standin.issues.setdefault(repository, Issues())


def _create_issue(standin: StandIn, repository: Repository, _: Request, body: object) -> _Answer:
    found = github_issues.faults(body, is_new=True)
    if found or not isinstance(body, dict):
        return _refused(found)
    return _Answer(201, _issues_of(standin, repository).create(body), is_write=True)


def _list_issues(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    return _Answer(200, _issues_of(standin, repository).listed(request.query_params))


def _read_issue(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    issue = _issues_of(standin, repository).rows.get(request.path_params["id"])
    return _Answer(404, {"message": "Not Found"}) if issue is None else _Answer(200, issue)


def _change_issue(
    standin: StandIn, repository: Repository, request: Request, body: object
) -> _Answer:
    issues = _issues_of(standin, repository)
    issue = issues.rows.get(request.path_params["id"])
    if issue is None:
        return _Answer(404, {"message": "Not Found"})
    found = github_issues.faults(body, is_new=False)
    if found or not isinstance(body, dict):
        return _refused(found)
    return _Answer(200, issues.change(issue, body), is_write=True)


def _delete_issue(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    # GitHub's REST API has no such request: a person does it, for whom tests stand in.
    _issues_of(standin, repository).rows.pop(request.path_params["id"], None)
    return _Answer(200, {})


def _comment(standin: StandIn, repository: Repository, request: Request, body: object) -> _Answer:
    issues = _issues_of(standin, repository)
    if request.path_params["id"] not in issues.rows:
        return _Answer(404, {"message": "Not Found"})
    text = body.get("body") if isinstance(body, dict) else None
    found = github_issues.text_faults(text)
    if found or not isinstance(text, str):
        return _refused(found)
    return _Answer(201, issues.comment(request.path_params["id"], text), is_write=True)


def _comments(standin: StandIn, repository: Repository, request: Request, _: object) -> _Answer:
    rows = _issues_of(standin, repository).comments.get(request.path_params["id"])
    if rows is None:
        return _Answer(404, {"message": "Not Found"})
    since = request.query_params.get("since", "")
    newer = [row for row in rows if row["updated_at"] >= since]
    return _Answer(200, github_issues.page_of(newer, request.query_params))


def _refused(found: list[str]) -> _Answer:
    return _Answer(422, {"message": "Invalid request.\n\n" + "\n".join(found), "errors": found})


def _faults_endpoint(standin: StandIn) -> Any:
    async def set_faults(request: Request) -> Response:
        body = await _json_body(request)
        if not isinstance(body, dict) or body.keys() - Faults.__dataclass_fields__.keys():
            known = ", ".join(Faults.__dataclass_fields__)
            return _message(422, f"Give an object with any of {known}.")
        standin.faults = Faults(**body)
        return JSONResponse(body)

    return set_faults


def _front_page(standin: StandIn) -> Any:
    async def front_page(_: Request) -> Response:
        counts = {f"{key.owner}/{key.name}": len(rows) for key, rows in standin.runs.items()}
        return JSONResponse({"stands_in_for": "api.github.com", "check_runs": counts})

    return front_page


def _message(status: int, text: str) -> JSONResponse:
    return JSONResponse({"message": text}, status)


async def _json_body(request: Request) -> object:
    data = await request.body()
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")


async def _hold(request: Request, seconds: float) -> None:
    """Wait until the client has gone away, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while not await request.is_disconnected():
                await asyncio.sleep(0.05)
    except TimeoutError:
        return


def main(argv: list[str]) -> int:
    """Serve until the process is ended; print one JSON line when it can be reached."""
    parser = argparse.ArgumentParser(
        prog="python -m evalhub.demo.github_standin",
        description="Stand in for GitHub's checks API on this machine.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--token", help="the bearer token to ask for; made anew by default")
    parser.add_argument("--log", type=Path, required=True, help="file of JSON lines, appended to")
    parser.add_argument("--parent", type=int, help="end when the process with this id ends")
    options = parser.parse_args(argv)
    if options.parent is not None and not die_with_parent(options.parent):
        return 1
    try:
        listener = socket.create_server((options.host, options.port))
    except OSError as error:
        sys.stderr.write(f"Port {options.port} cannot be used: {error.strerror}; choose another.\n")
        return 2
    # asyncio sets this itself only on sockets that it made; without it each answer waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    standin = StandIn(options.token or secrets.token_urlsafe(24), options.log)
    url = f"http://{options.host}:{listener.getsockname()[1]}"
    sys.stdout.write(json.dumps({"url": url, "token": standin.token}) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        build_app(standin), http="h11", ws="none", lifespan="off", log_level="warning"
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
