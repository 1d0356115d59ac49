"""The HTTP side of one world: keys, routes, idempotency, counts.

Every handler reads its body first and then works without awaiting, so requests change the world one
after the other and need no lock.
"""

import hashlib
import hmac
import os
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evalhub.runner.simulator.errors import ApiError, JsonObject, unknown_parameters
from evalhub.runner.simulator.operations import OPERATIONS, Operation
from evalhub.runner.simulator.parameters import nested_parameters, read_parameters
from evalhub.runner.simulator.seeding import NAME, build_digest, seeded_world

FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1_000_000


class _Answer(NamedTuple):
    """What was answered under an idempotency key, and to which request."""

    request_digest: str
    body: JsonObject


@dataclass
class Simulator:
    """One world behind one key, with the counts that a lane reports as evidence.

    `requests` counts what carried the key and reached an operation, `refused` those among them that
    were answered with an error, `foreign` what came without the key.
    """

    seed: int
    key: str
    instance_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    world_ids: list[str] = field(default_factory=list)
    requests: int = 0
    refused: int = 0
    foreign: int = 0
    resets: int = 0
    answers: dict[str, _Answer] = field(default_factory=dict)
    known_digest: str | None = None

    def __post_init__(self) -> None:
        self.pristine = seeded_world(self.seed)
        self.seed_digest = self.pristine.digest()
        self._begin_world()

    def reset(self) -> None:
        """Begin a new world from the same seed; counts of this process go on."""
        self.resets += 1
        self._begin_world()

    def final_digest(self) -> str:
        """Return the digest of the world as it is now."""
        # A digest walks the whole world: it is taken once after each change, not at each question.
        if self.known_digest is None:
            self.known_digest = self.world.digest()
        return self.known_digest

    def state(self) -> JsonObject:
        return {
            "name": NAME,
            "build": build_digest(),
            "instance_id": self.instance_id,
            "pid": os.getpid(),
            "seed": self.seed,
            "world_id": self.world_ids[-1],
            "world_ids": self.world_ids,
            "seed_digest": self.seed_digest,
            "final_digest": self.final_digest(),
            "resets": self.resets,
            "requests": {
                "total": self.requests,
                "refused": self.refused,
                "foreign": self.foreign,
            },
        }

    def _begin_world(self) -> None:
        self.world = self.pristine.copy()
        self.known_digest = self.seed_digest
        self.answers = {}
        self.world_ids.append(f"wld_{uuid.uuid4().hex}")


def build_app(simulator: Simulator) -> Starlette:
    """Return the ASGI application of one world."""
    routes = [
        Route(operation.path, _endpoint(simulator, operation), methods=[operation.method])
        for operation in OPERATIONS
    ]
    routes.append(Route("/_evalhub/state", _state_endpoint(simulator), methods=["GET"]))
    routes.append(Route("/_evalhub/reset", _reset_endpoint(simulator), methods=["POST"]))
    return Starlette(
        routes=routes,
        middleware=[Middleware(_KeyCheck, simulator=simulator)],
        exception_handlers={HTTPException: _unrecognized, ApiError: _refusal},
    )


class _KeyCheck:
    """Refuse and count requests without this lane's key, before any route is looked up."""

    def __init__(self, app: ASGIApp, simulator: Simulator) -> None:
        self.app = app
        self.simulator = simulator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if hmac.compare_digest(given, self.simulator.key.encode()):
            await self.app(scope, receive, send)
            return
        self.simulator.foreign += 1
        shown = f"***{given.decode('latin-1')[-4:]}" if len(given) > 8 else "none"
        error = ApiError(f"Invalid API Key provided: {shown}", status=401)
        await _error_response(error)(scope, receive, send)


_Endpoint = Callable[[Request], Awaitable[Response]]


def _endpoint(simulator: Simulator, operation: Operation) -> _Endpoint:
    async def endpoint(request: Request) -> Response:
        encoded = await _encoded_parameters(request)
        simulator.requests += 1
        try:
            return JSONResponse(_answer(simulator, operation, request, encoded))
        except ApiError as error:
            simulator.refused += 1
            return _error_response(error)

    return endpoint


def _state_endpoint(simulator: Simulator) -> _Endpoint:
    async def state(request: Request) -> Response:
        _refuse_all_parameters(await _encoded_parameters(request))
        return JSONResponse(simulator.state())

    return state


def _reset_endpoint(simulator: Simulator) -> _Endpoint:
    async def reset(request: Request) -> Response:
        _refuse_all_parameters(await _encoded_parameters(request))
        simulator.reset()
        return JSONResponse(simulator.state())

    return reset


async def _encoded_parameters(request: Request) -> str:
    """Return the parameters in form encoding: from the body of a POST, else from the query."""
    body = await request.body()
    if request.method != "POST":
        if body:
            raise ApiError(f"A {request.method} request takes its parameters in the query string.")
        return request.url.query
    if request.url.query:
        raise unknown_parameters([request.url.query.split("=", 1)[0]])
    if len(body) > MAX_BODY_BYTES:
        raise ApiError("The request body is larger than 1,000,000 bytes.", status=413)
    if body and request.headers.get("content-type", "").split(";")[0].strip() != FORM:
        raise ApiError(f"Invalid request (check that your POST content type is {FORM}).")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ApiError("The request body is not UTF-8.") from error


def _refuse_all_parameters(encoded: str) -> None:
    read_parameters(nested_parameters(encoded), accepted={})


def _answer(
    simulator: Simulator, operation: Operation, request: Request, encoded: str
) -> JsonObject:
    """Run the operation, once per idempotency key; what was refused is not remembered."""
    path_key = request.path_params.get("key", "")
    idempotency_key = request.headers.get("idempotency-key")
    if idempotency_key is None or operation.method != "POST":
        return _run(simulator, operation, path_key, encoded)
    named = f"{operation.method} {request.url.path}\n{encoded}"
    digest = hashlib.sha256(named.encode()).hexdigest()
    earlier = simulator.answers.get(idempotency_key)
    if earlier is None:
        body = _run(simulator, operation, path_key, encoded)
        simulator.answers[idempotency_key] = _Answer(digest, body)
        return body
    if earlier.request_digest != digest:
        raise ApiError(
            "Keys for idempotent requests can only be used with the same parameters they were "
            f"first used with. Try using a key other than '{idempotency_key}' if you meant to "
            "execute a different request.",
            kind="idempotency_error",
        )
    return earlier.body


def _run(simulator: Simulator, operation: Operation, key: str, encoded: str) -> JsonObject:
    given = read_parameters(
        nested_parameters(encoded), accepted=operation.accepted, required=operation.required
    )
    if operation.method != "GET":
        simulator.known_digest = None
    # A copy: what is remembered under an idempotency key must not change with the object.
    return dict(operation.run(simulator.world, key, given))


def _error_response(error: ApiError) -> JSONResponse:
    return JSONResponse(error.body(), error.status)


async def _refusal(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return _error_response(error)


async def _unrecognized(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    message = f"Unrecognized request URL ({request.method}: {request.url.path})."
    return _error_response(ApiError(message, status=status))
