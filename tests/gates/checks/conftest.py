"""A stand-in for GitHub in a process of its own, and what it was asked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from pytest_django import Settings

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request that the stand-in answered, or withheld the answer of (`status` None)."""

    method: str
    path: str
    body: Json | None
    status: int | None


class StandIn(NamedTuple):
    """A running stand-in. Projects of different names do not see each other's checks."""

    url: str
    token: str
    log: Path

    def fail(self, **faults: object) -> None:
        """Tell it what is to go wrong next."""
        httpx.post(f"{self.url}/_faults", json=faults, trust_env=False).raise_for_status()

    def asked(self, repository: str) -> list[Asked]:
        """Return the requests about a repository, oldest first."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [
            Asked(line["method"], line["path"], line["body"], line["status"])
            for line in lines
            if line["path"].startswith(f"/repos/{repository}/")
        ]

    def writes(self, repository: str) -> list[str]:
        """Return the methods of the requests that change something."""
        return [one.method for one in self.asked(repository) if one.method != "GET"]

    def check_runs(self, repository: str, head_sha: str) -> list[Json]:
        """Return what GitHub would show on a commit, newest first."""
        answer = httpx.get(
            f"{self.url}/repos/{repository}/commits/{head_sha}/check-runs",
            params={"filter": "all"},
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,
        )
        found: list[Json] = answer.raise_for_status().json()["check_runs"]
        return found


@pytest.fixture(scope="session")
def standin_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    log = tmp_path_factory.mktemp("github") / "requests.ndjson"
    log.touch()
    command = [sys.executable, "-m", "evalhub.demo.github_standin", "--log", str(log)]
    with subprocess.Popen(
        [*command, "--parent", str(os.getpid())], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield StandIn(ready["url"], ready["token"], log)
        process.terminate()


@pytest.fixture
def standin(standin_process: StandIn, settings: Settings) -> StandIn:
    """Let evalhub deliver to the stand-in, which is in good order."""
    settings.GITHUB_API_URL = standin_process.url
    settings.GITHUB_TOKEN = standin_process.token
    standin_process.fail()
    return standin_process
