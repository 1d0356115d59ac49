"""Where a plan comes from."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evalhub.runner.errors import InputError
from evalhub.runner.sources import source_of

MERGE, HEAD, BASE = "c" * 40, "a" * 40, "b" * 40


def actions(tmp_path: Path, name: str, event: dict[str, Any], **more: str) -> dict[str, str]:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY_ID": "1296269",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_SHA": MERGE,
        "GITHUB_RUN_ID": "37110051697",
        **more,
    }


def test_pull_request_names_head_test_merge_and_base(tmp_path: Path) -> None:
    event = {"number": 12, "pull_request": {"head": {"sha": HEAD}, "base": {"sha": BASE}}}

    source = source_of(
        actions(tmp_path, "pull_request", event, GITHUB_REF="refs/pull/12/merge"), {}
    )

    assert source == {
        "event": "pull_request",
        "repository_id": 1296269,
        "ref": "refs/pull/12/merge",
        "pull_request": 12,
        "head_sha": HEAD,
        "tested_sha": MERGE,
        "base_sha": BASE,
        "workflow_run_id": 37110051697,
    }


def test_pull_request_takes_the_base_that_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "old base")
    old = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "change")
    git("commit", "-q", "--allow-empty", "-m", "change")
    head = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    git("commit", "-q", "--allow-empty", "-m", "the base branch moved")
    moved = git("rev-parse", "HEAD")
    git("merge", "-q", "--no-ff", "-m", "test merge", "change")
    merge = git("rev-parse", "HEAD")
    monkeypatch.chdir(tmp_path)
    event = {"number": 12, "pull_request": {"head": {"sha": head}, "base": {"sha": old}}}

    source = source_of(actions(tmp_path, "pull_request", event, GITHUB_SHA=merge), {})

    assert source["base_sha"] == moved


@pytest.mark.parametrize(
    ("name", "event", "expected"),
    [
        ("push", {"before": BASE, "after": MERGE}, ("push", MERGE, BASE)),
        ("push", {"before": "0" * 40}, ("push", MERGE, None)),
        ("merge_group", {"merge_group": {"head_sha": MERGE, "base_sha": BASE}}, None),
        ("schedule", {"schedule": "37 10 * * *"}, ("schedule", MERGE, None)),
        ("workflow_dispatch", {"inputs": {}}, ("manual", MERGE, None)),
    ],
)
def test_other_events_name_their_commits(
    tmp_path: Path, name: str, event: dict[str, Any], expected: tuple[str, ...] | None
) -> None:
    source = source_of(actions(tmp_path, name, event), {})

    wanted = expected or ("merge_group", MERGE, BASE)
    assert (source["event"], source["head_sha"], source["base_sha"]) == wanted
    assert source["tested_sha"] == MERGE
    assert source["pull_request"] is None


def test_flags_win_over_the_environment(tmp_path: Path) -> None:
    environment = actions(tmp_path, "push", {"before": BASE})

    source = source_of(environment, {"head_sha": HEAD, "ref": None})

    assert source["head_sha"] == HEAD
    assert source["ref"] == "refs/heads/main"


def test_an_import_is_not_of_the_job_that_imports(tmp_path: Path) -> None:
    assert source_of(actions(tmp_path, "push", {}), {"event": "import"}) == {"event": "import"}


def test_outside_of_ci_a_plan_is_manual() -> None:
    assert source_of({}, {"pull_request": None}) == {"event": "manual"}


def test_pull_request_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="GITHUB_EVENT_NAME was 'pull_request_target'"):
        source_of(actions(tmp_path, "pull_request_target", {}), {})


def test_an_event_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    environment = actions(tmp_path, "push", {}, GITHUB_EVENT_PATH=str(tmp_path / "gone.json"))

    with pytest.raises(InputError, match=r"GITHUB_EVENT_PATH names .*gone\.json"):
        source_of(environment, {})
