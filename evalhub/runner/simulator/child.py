"""Start a lane's own simulator as a child process, and ask it for its state.

Nothing here imports the web framework: only the child needs it.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from evalhub.runner.simulator.errors import JsonObject

KEY_VARIABLE = "EVALHUB_SIMULATOR_KEY"
_STOP_SECONDS = 5


class SimulatorError(Exception):
    """The simulator could not be started or asked; the message says what to do."""


@dataclass(frozen=True)
class RunningSimulator:
    """A simulator that answers: where, with which key, and what it said about itself at start."""

    url: str
    key: str
    started: JsonObject

    def state(self) -> JsonObject:
        """Return world id, digests and request counts as they are now."""
        return self._ask("GET", "/_evalhub/state")

    def reset(self) -> JsonObject:
        """Begin a new world from the same seed and return its state."""
        return self._ask("POST", "/_evalhub/reset")

    def _ask(self, method: str, path: str) -> JsonObject:
        try:
            # trust_env: a proxy of the machine must never stand between a lane and its own world.
            with httpx.Client(trust_env=False, timeout=10) as client:
                answer = client.request(
                    method, self.url + path, headers={"Authorization": f"Bearer {self.key}"}
                )
        except httpx.HTTPError as error:
            raise SimulatorError(
                f"The simulator at {self.url} does not answer ({error}); start the lane again."
            ) from error
        if answer.status_code != 200:
            raise SimulatorError(
                f"The simulator at {self.url} answered {answer.status_code} to {path}: "
                f"{answer.text[:200]}"
            )
        state: JsonObject = answer.json()
        return state


@contextmanager
def start_simulator(seed: int) -> Iterator[RunningSimulator]:
    """Run a simulator of this seed on a free port of the loopback address, for a `with` block.

    Call it from a thread that lives as long as the block: the child ends with that thread.

    Raises:
        SimulatorError: if the child ends before it can be reached.
    """
    command = [sys.executable, "-m", "evalhub.runner.simulator.server"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--seed", str(seed), "--parent", str(os.getpid())],
        env={**os.environ, KEY_VARIABLE: secrets.token_urlsafe(24)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _when_ready(process)
    finally:
        _stop(process)


def _when_ready(process: subprocess.Popen[str]) -> RunningSimulator:
    if process.stdout is None:
        raise SimulatorError("The simulator was started without a pipe for its address.")
    line = process.stdout.readline()
    if not line:
        raise SimulatorError(
            f"The simulator ended with code {process.wait()} before it was ready; "
            "install its parts with: pip install 'evalhub[simulator]'"
        )
    ready = json.loads(line)
    return RunningSimulator(url=ready["url"], key=ready["key"], started=ready)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
