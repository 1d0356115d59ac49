"""A real simulator, begun anew for each test."""

from collections.abc import Iterator

import httpx
import pytest

from evalhub.runner.simulator.child import RunningSimulator, start_simulator

SEED = 7


@pytest.fixture(scope="module")
def running() -> Iterator[RunningSimulator]:
    with start_simulator(SEED) as process:
        yield process


@pytest.fixture
def client(running: RunningSimulator) -> Iterator[httpx.Client]:
    """Return a client that holds the key, before a world that nobody has touched."""
    running.reset()
    headers = {"Authorization": f"Bearer {running.key}"}
    with httpx.Client(base_url=running.url, headers=headers, trust_env=False) as client:
        yield client
