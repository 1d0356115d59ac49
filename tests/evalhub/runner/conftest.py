"""A store that fails on demand, anew for each test."""

from collections.abc import Iterator

import pytest

from tests.evalhub.runner.loopback import LoopbackStore, loopback_store


@pytest.fixture
def store() -> Iterator[LoopbackStore]:
    with loopback_store() as running:
        yield running
