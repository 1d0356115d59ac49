"""Where a plan comes from: what GitHub Actions says about the commit, and what flags say instead."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.runner.errors import InputError

_EVENTS = {
    "pull_request": "pull_request",
    "merge_group": "merge_group",
    "push": "push",
    "schedule": "schedule",
    "workflow_dispatch": "manual",
    "repository_dispatch": "manual",
}
_NO_COMMIT = "0" * 40
_GIT_SECONDS = 10


class _Commits(NamedTuple):
    head_sha: str | None
    base_sha: str | None
    pull_request: int | None = None


def source_of(environment: Mapping[str, str], given: Mapping[str, object]) -> dict[str, Any]:
    """Return `source` of a plan: from GitHub Actions where the job runs there; flags win.

    `given` holds the fields that flags set; those that are None are taken as not given. A merge of a
    pull request is named by its own parents where git can read them: the base branch may have moved
    since the event was written.

    Raises:
        InputError: for an event that evalhub does not take, or an event file that cannot be read.
    """
    flags = {name: value for name, value in given.items() if value is not None}
    found: dict[str, Any] = {"event": "manual"}
    if environment.get("GITHUB_ACTIONS") == "true" and flags.get("event") != "import":
        found = _github_source(environment)
    return {**found, **flags}


def _github_source(environment: Mapping[str, str]) -> dict[str, Any]:
    name = environment.get("GITHUB_EVENT_NAME", "")
    if name not in _EVENTS:
        raise InputError(
            f"GITHUB_EVENT_NAME was {name!r}; expected one of {', '.join(_EVENTS)}: "
            "start the evaluation from one of these events."
        )
    event = _event_payload(environment)
    tested = environment.get("GITHUB_SHA")
    commits = _commits(name, event, tested)
    return {
        "event": _EVENTS[name],
        "repository_id": _number(environment, "GITHUB_REPOSITORY_ID"),
        "ref": environment.get("GITHUB_REF"),
        "pull_request": commits.pull_request,
        "head_sha": commits.head_sha,
        "tested_sha": tested,
        "base_sha": commits.base_sha,
        "workflow_run_id": _number(environment, "GITHUB_RUN_ID"),
    }


def _event_payload(environment: Mapping[str, str]) -> dict[str, Any]:
    path = environment.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        payload = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"GITHUB_EVENT_PATH names {path}, which cannot be read as JSON ({error}); "
            "give --event, --head-sha, --tested-sha and --base-sha instead."
        ) from None
    return payload if isinstance(payload, dict) else {}


def _commits(name: str, event: dict[str, Any], tested: str | None) -> _Commits:
    if name == "pull_request":
        pull = event.get("pull_request") or {}
        head, base = pull.get("head", {}).get("sha"), pull.get("base", {}).get("sha")
        parents = parents_of(tested) if tested else []
        if len(parents) == 2 and parents[1] == head:
            base = parents[0]
        return _Commits(head, base, event.get("number") or pull.get("number"))
    if name == "merge_group":
        group = event.get("merge_group") or {}
        return _Commits(group.get("head_sha") or tested, group.get("base_sha"))
    before = event.get("before") if name == "push" else None
    return _Commits(tested, before if before != _NO_COMMIT else None)


def parents_of(commit: str) -> list[str]:
    """Return the parents of a commit of the current folder's repository; none where git cannot say.

    Reads the commit itself, so that it works in a shallow clone.
    """
    try:
        answer = subprocess.run(
            ["git", "cat-file", "commit", commit],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    header = answer.stdout.split("\n\n", 1)[0]
    return [line.split()[1] for line in header.splitlines() if line.startswith("parent ")]


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"{name} was {text!r}; expected a number.")
    return int(text)
