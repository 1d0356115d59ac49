"""Keeps the token out of the environment block that the kernel shows of this process.

A process cannot change what /proc/<pid>/environ says of it: that is what it was started with. So a
command that starts agents starts itself again, without its secrets in the environment; they come
through a pipe that is read once. Only root could still look into this process's memory.
"""

import functools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from evalhub.runner.errors import InputError

# What lets somebody act as the lane. `--pass-env` cannot name them.
LANE_SECRETS = (
    "EVALHUB_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_URL",
    "ACTIONS_RUNTIME_TOKEN",
)
_FD_VARIABLE = "EVALHUB_TOKEN_FD"

_held: dict[str, str] = {}


def start_again_without_secrets() -> None:
    """Replace this process with the same command whose environment block has no secret.

    Returns where there is nothing to hide, or no way to start again (the lane's guard tells then).
    """
    secrets = {name: os.environ[name] for name in LANE_SECRETS if os.environ.get(name)}
    data = json.dumps(secrets).encode()
    if not secrets or not sys.executable:
        return
    reading, writing = os.pipe()
    # Nobody reads yet: what the pipe does not take at once (Linux: 64 KiB, a page at the least) would
    # be waited for without end. CI's tokens have a few thousand bytes each.
    os.set_blocking(writing, False)
    try:
        is_whole = os.write(writing, data) == len(data)
    except BlockingIOError:
        is_whole = False
    os.close(writing)
    if not is_whole:
        os.close(reading)
        return
    os.set_inheritable(reading, True)  # noqa: FBT003 - takes no name
    kept = {name: value for name, value in os.environ.items() if name not in secrets}
    try:
        os.execve(  # noqa: S606 - the command that a person gave, again
            sys.executable,
            [sys.executable, *sys.orig_argv[1:]],
            {**kept, _FD_VARIABLE: str(reading)},
        )
    except OSError:
        os.close(reading)


def take_handed_secrets() -> None:
    """Read what the process before this one handed on, and close the pipe. Call it once, first.

    Raises:
        InputError: if the variable names no such pipe.
    """
    number = os.environ.pop(_FD_VARIABLE, None)
    if number is None:
        return
    try:
        with os.fdopen(int(number), "rb") as pipe:
            _held.update(json.loads(pipe.read()))
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"{_FD_VARIABLE} was {number!r}; expected it absent: evalhub sets it for itself. "
            "Give the token in EVALHUB_TOKEN or EVALHUB_TOKEN_FILE."
        ) from None


def with_held_secrets(environment: Mapping[str, str], *, token: str | None) -> dict[str, str]:
    """Return an environment with the secrets that were taken out of it: what a guard looks for."""
    return {**environment, **_held, **({"EVALHUB_TOKEN": token} if token else {})}


def held(name: str) -> str | None:
    """Return what the environment has under one of LANE_SECRETS, or had before it was taken out."""
    return os.environ.get(name) or _held.get(name)


def given_token() -> str | None:
    """Return the token of EVALHUB_TOKEN, or of the file that EVALHUB_TOKEN_FILE names.

    Raises:
        InputError: if the file cannot be read or holds no token.
    """
    token = held("EVALHUB_TOKEN")
    path = os.environ.get("EVALHUB_TOKEN_FILE")
    return token or (_token_in(path) if path else None)


# A pipe such as /dev/fd/3 can be read only once.
@functools.cache
def _token_in(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InputError(
            f"EVALHUB_TOKEN_FILE was {path!r}, which cannot be read ({reason}); "
            "expected a file that holds a token of the project."
        ) from None
    if not token:
        raise InputError(
            f"EVALHUB_TOKEN_FILE was {path!r}, which is empty; "
            "expected a file that holds a token of the project."
        )
    return token
