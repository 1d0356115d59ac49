"""`manage.py demo` with real processes: the main job from a plan to a check, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from evalhub.demo import story
from evalhub.demo.build_suite import ROOT
from evalhub.demo.programs import Programs, quiet_environment
from evalhub.supervisor.programs import Program
from tests.programs.evalhub import clean_environment
from tests.programs.processes import descendants, survivors, wait_for
from tests.programs.server import Server, free_port

pytestmark = pytest.mark.slow

LANES = {"refunds": 27, "lookups": 18, "payments": 33, "memory": 15}


class Demo(Server):
    """A real `manage.py demo`; it is ready when its lanes have begun to work."""

    start_seconds = 120.0

    def __init__(self, data: Path, *flags: str) -> None:
        super().__init__(data.parent, name="demo")
        self.data = data
        self.command = [sys.executable, "manage.py", "demo", "--port", str(free_port())]
        self.command += ["--data", str(data), *flags]

    def program(self) -> Program:
        return Program("demo", self.command)

    def surroundings(self) -> dict[str, str]:
        return clean_environment()

    def is_ready(self) -> bool:
        return (self.data / "demo" / "lane-baseline-refunds.progress.json").exists()


@pytest.fixture
def running_lanes(tmp_path: Path) -> Iterator[Demo]:
    with Demo(tmp_path / "data") as demo:
        yield demo


@pytest.mark.journey
@pytest.mark.timeout(900)
def test_demo_once_tells_the_whole_story(tmp_path: Path) -> None:
    data = tmp_path / "data"

    demo = Demo(data, "--once")
    demo.launch()
    assert wait_for(lambda: len(descendants(demo.process.pid)) > 3, 60)
    family = descendants(demo.process.pid)
    code = demo.process.wait(800)

    assert code == 0, demo.said
    assert survivors(family) == []
    document = json.loads((data / "demo.json").read_text())
    _assert_plans(document)
    _assert_regression(document)
    assert document["items"]["refused"] == 0
    assert document["items"]["accepted"] > 2 * 93 * 3
    logged = [json.loads(line) for line in (data / "github.ndjson").read_text().splitlines()]
    written = [line for line in logged if line["method"] in {"POST", "PATCH"}]
    assert written[-1]["body"]["conclusion"] == "failure"
    assert {line["status"] for line in written} <= {200, 201}
    assert "/sign-in/link/" in demo.said
    assert "Traceback" not in demo.said


def _assert_plans(document: dict[str, Any]) -> None:
    baseline, candidate = document["plans"]
    assert (baseline["name"], candidate["name"]) == ("baseline", "candidate")
    assert baseline["digest"] != candidate["digest"]
    assert baseline["conclusion"] == "action_required"
    for plan in (baseline, candidate):
        assert {lane["name"]: lane["total"] for lane in plan["lanes"]} == LANES
        assert all(lane["sealed"] and not lane["missing"] for lane in plan["lanes"])
        assert plan["check"]["head_sha"] == plan["commit"]
        assert plan["check"]["conclusion"] == plan["conclusion"]


def _assert_regression(document: dict[str, Any]) -> None:
    assert document["conclusion"] == "failure"
    assert document["check"]["conclusion"] == "failure"
    worse = {
        (row["rubric"], row["category"])
        for row in document["verdicts"]
        if row["verdict"] == "REGRESSION"
    }
    assert ("resolved", None) in worse
    # The category that was made worse is found, and no other is blamed.
    assert {category for _, category in worse if category} == {"refunds"}
    resolved = next(
        row
        for row in document["verdicts"]
        if (row["rubric"], row["category"]) == ("resolved", None)
    )
    assert resolved["confirmed"] is True
    assert resolved["ci95"][1] < 0


@pytest.mark.journey
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_demo_leaves_nothing(running_lanes: Demo, ending: signal.Signals) -> None:
    family = descendants(running_lanes.process.pid)
    assert any("lane run" in process.command for process in family)

    running_lanes.process.send_signal(ending)
    running_lanes.process.wait(60)

    assert wait_for(lambda: survivors(family) == [], 40), survivors(family)
    assert "Traceback" not in running_lanes.said
    # The next demo on this data needs the token, and tells of other commits.
    kept = running_lanes.data / "demo" / "kept.json"
    assert json.loads(kept.read_text())["runs"] == 1
    assert json.loads(kept.read_text())["token"]
    assert kept.parent.stat().st_mode & 0o077 == 0


@pytest.mark.journey
def test_taken_port_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        finished = subprocess.run(
            [
                *(sys.executable, "manage.py", "demo", "--port", str(port)),
                *("--data", str(tmp_path / "data")),
            ],
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert finished.returncode == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_commits_follow_from_the_number_of_the_demo() -> None:
    first, again, second = (story.chapters(number) for number in (1, 1, 2))

    commits = {chapter.commit for chapter in [*first, *second]}
    assert first == again
    assert len(commits) == 4
    assert all(len(commit) == 40 for commit in commits)
    assert [chapter.defect for chapter in first] == [None, "refunds"]


def test_items_are_summed_over_lanes() -> None:
    lanes = [{"accepted": 3, "refused": 1}, {"accepted": 4, "refused": 0}]

    assert story.items(lanes) == {"accepted": 7, "refused": 1}


def test_guards_are_observed_and_not_claimed(tmp_path: Path) -> None:
    programs = Programs(ROOT, tmp_path, quiet_environment(tmp_path))
    at = datetime(2026, 11, 29, 12, tzinfo=UTC)

    guards = story.observed_guards(programs, at=at)

    assert [(guard["name"], guard["result"]) for guard in guards] == [
        ("agent_registered", "ok"),
        ("simulator_up", "ok"),
    ]
    assert guards[0]["observed"] == ["payments-agent"]
    assert {guard["checked_at"] for guard in guards} == {"2026-11-29T12:00:00.000Z"}


def test_surroundings_of_a_ci_job_do_not_reach_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SHA", "f" * 40)
    monkeypatch.setenv("EVALHUB_TOKEN", "another store's")

    environment = quiet_environment(tmp_path)

    assert not {"GITHUB_SHA", "EVALHUB_TOKEN"} & environment.keys()
    assert environment["EVALHUB_DATA"] == str(tmp_path)
    assert environment["PATH"] == os.environ["PATH"]


def test_stand_in_answers_what_it_has_of_a_commit(tmp_path: Path) -> None:
    programs = Programs(ROOT, tmp_path, quiet_environment(tmp_path))
    command = [sys.executable, "-m", "evalhub.demo.github_standin", "--log", str(tmp_path / "log")]
    try:
        standin = programs.start("github", command)
        line = programs.wait_for(
            standin, lambda: standin.said_line(""), seconds=20, what="the stand-in was ready"
        )
        github = story.GitHub(**json.loads(line))
        before = github.check_of("a" * 40)
        httpx.post(
            f"{github.url}/repos/{story.PROJECT}/check-runs",
            json={"name": "evalhub / payments", "head_sha": "a" * 40},
            headers={"Authorization": f"Bearer {github.token}"},
            trust_env=False,
        ).raise_for_status()
        after = github.check_of("a" * 40)
        family = {p for p in descendants(os.getpid()) if str(tmp_path) in p.command}
    finally:
        programs.stop()

    assert family
    assert before is None
    assert after is not None
    assert after["status"] == "queued"
    assert survivors(family) == []
