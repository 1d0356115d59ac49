"""A stand-in for GitHub in a process of its own."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.programs.github import GitHubStandIn


@pytest.fixture(scope="session")
def standin_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as standin:
        yield standin


@pytest.fixture
def standin(standin_process: GitHubStandIn, settings: Settings) -> GitHubStandIn:
    """Let evalhub deliver to the stand-in, which is in good order."""
    settings.GITHUB_API_URL = standin_process.url
    settings.GITHUB_TOKEN = standin_process.token
    standin_process.fail()
    return standin_process
