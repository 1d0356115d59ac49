"""The simulator's image: its command serves a world, its health check finds it, SIGTERM ends it in time."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from evalhub.supervisor.programs import Program
from tests.docker.compose import FOLDER, compose, duration
from tests.docker.dockerfile import stages
from tests.programs.server import Server, free_port

pytestmark = [pytest.mark.journey, pytest.mark.enable_socket]

SERVICE = compose(EVALHUB_HOST="localhost")["services"]["simulator"]
IMAGE = stages(FOLDER / "simulator.Dockerfile")[-1]
PORT = IMAGE.last("EXPOSE").arguments
PROGRAMS = Path(sys.executable).parent


class Simulator(Server):
    """The service, on a free port of the loopback."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="simulator")
        self.port = str(free_port())

    def program(self) -> Program:
        name, *rest = SERVICE["command"]
        here = {PORT: self.port, "0.0.0.0": "127.0.0.1"}  # noqa: S104
        return Program(
            "simulator", [str(PROGRAMS / name), *(here.get(word, word) for word in rest)]
        )

    def is_ready(self) -> bool:
        check = IMAGE.last("HEALTHCHECK").arguments.partition("CMD ")[2]
        _, *rest = yaml.safe_load(check)
        command = [sys.executable, *(word.replace(PORT, self.port) for word in rest)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Simulator]:
    with Simulator(tmp_path) as server:
        yield server


def test_simulator_of_the_image_serves_and_ends(simulator: Simulator) -> None:
    granted = duration(SERVICE["stop_grace_period"])
    assert '"seed": 1' in simulator.said

    simulator.process.send_signal(signal.SIGTERM)

    simulator.process.wait(granted.total_seconds())
