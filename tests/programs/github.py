"""The demo's stand-in for GitHub, as a process of its own, and what it was asked."""

import json
import secrets
import sys
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from evalhub.supervisor.programs import Program
from tests.programs.server import Server, free_port

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request that the stand-in answered, or withheld the answer of (`status` None)."""

    method: str
    path: str
    body: Json | None
    status: int | None


class GitHubStandIn(Server):
    """A running stand-in. Projects of different names do not see each other's checks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="github")
        self.requests = folder / "requests.ndjson"
        self.requests.touch()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = secrets.token_urlsafe(24)
        self.environment = {
            "EVALHUB_GITHUB_API_URL": self.url,
            "EVALHUB_GITHUB_TOKEN": self.token,
        }

    def program(self) -> Program:
        command = [sys.executable, "-m", "evalhub.demo.github_standin"]
        reached = ["--port", str(self.port), "--token", self.token]
        return Program("github", [*command, *reached, "--log", str(self.requests)])

    def is_ready(self) -> bool:
        # It says where it is once it listens.
        return self.said.endswith("\n")

    def fail(self, **faults: object) -> None:
        """Tell it what is to go wrong next."""
        httpx.post(f"{self.url}/_faults", json=faults, trust_env=False).raise_for_status()

    def asked(self, repository: str) -> list[Asked]:
        """Return the requests about a repository, oldest first."""
        lines = [json.loads(line) for line in self.requests.read_text().splitlines()]
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
