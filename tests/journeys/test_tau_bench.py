"""Real results on the whole way: two trials of tau-bench, from their files to a verdict and a check.

Everything runs as a user runs it: `manage.py up` with its web server, worker and broker, the installed
`evalhub` command, a stand-in for GitHub. The result files are not part of this repository.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.programs.evalhub import Up, clean_environment
from tests.programs.github import GitHubStandIn
from tests.programs.processes import wait_for

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "tau_bench"
TRIALS = [SAMPLES / f"gpt-4o-airline.trial{number}.json" for number in (0, 1)]
PROJECT = "acme/airline-agent"
REPOSITORY_ID = 1296269
HEADS = ["a" * 40, "b" * 40]

pytestmark = [
    pytest.mark.journey,
    pytest.mark.skipif(
        not all(path.is_file() for path in TRIALS),
        reason="needs tau-bench's result files of trials 0 and 1 beside the repository",
    ),
]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


class Journey:
    """A running evalhub, its token, and a folder to work in."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder = folder
        self._environment = {**os.environ, "EVALHUB_URL": url, "EVALHUB_TOKEN": token}

    def evalhub(self, *arguments: str | Path) -> Done:
        """Run the installed client."""
        done = subprocess.run(
            [Path(sys.executable).with_name("evalhub"), *map(str, arguments)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def good(self, *arguments: str | Path) -> dict[str, Any]:
        done = self.evalhub(*arguments, "--json")
        assert done.code == 0, done.err
        return done.document


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as standin:
        yield standin


@pytest.fixture(scope="module")
def journey(github: GitHubStandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    folder = tmp_path_factory.mktemp("journey")
    with Up(folder / "data", **github.environment) as up:
        token = created_project(folder / "data")
        (folder / "work").mkdir()
        yield Journey(folder / "work", up.url, token)


def created_project(data: Path) -> str:
    flags = ["--repository-id", str(REPOSITORY_ID), "--default-branch", "main"]
    flags.append("--checks-for-unverified")
    done = subprocess.run(
        [sys.executable, "manage.py", "create_project", PROJECT, *flags, "--json"],
        cwd=Path(__file__).parents[2],
        env={**clean_environment(), "EVALHUB_DATA": str(data)},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout)["token"])


@pytest.fixture(scope="module")
def concluded(journey: Journey) -> list[dict[str, Any]]:
    """Import trial 0 and adopt it, import trial 1; return both conclusions."""
    flags = ["--project", PROJECT, "--arm", "candidate=airline-agent:gpt-4o"]
    first = ["--suite-out", "suite.json", "--policy-out", "policy.json"]
    conclusions = []
    for number, trial in enumerate(TRIALS):
        commits = ["--head-sha", HEADS[number], "--tested-sha", HEADS[number]]
        files = first if number == 0 else ["--policy", "policy.json"]
        plan = f"plan{number}.json"
        built = journey.good(
            "plan", "build", "--from-results", trial, *flags, *files, *commits, "--out", plan
        )
        if number == 0:
            journey.good("suite", "put", "suite.json", "--project", PROJECT)
            journey.good("policy", "put", "policy.json", "--project", PROJECT)
        journey.good("plan", "register", plan)
        pushed = journey.good("push", "--from", "tau-bench", trial, "--plan", plan)
        assert (pushed["sealed"], pushed["missing"], pushed["refused"]) == (True, [], 0)
        verdict = journey.evalhub("verdict", built["digest"], "--wait", "60", "--json")
        conclusions.append(verdict.document)
        if number == 0:
            adopted = ["baseline", "adopt", built["digest"], "--reason", "trial 0 is the reference"]
            journey.good(*adopted)
    return conclusions


def overall(conclusion: dict[str, Any], rubric: str) -> dict[str, Any]:
    (row,) = [
        row for row in conclusion["verdicts"] if row["rubric"] == rubric and row["category"] is None
    ]
    verdict: dict[str, Any] = row
    return verdict


def rewards(trial: Path) -> dict[str, float]:
    return {f"task-{run['task_id']}": run["reward"] for run in json.loads(trial.read_text())}


def test_the_baseline_trial_has_nothing_to_be_compared_with(
    concluded: list[dict[str, Any]],
) -> None:
    first = concluded[0]

    assert first["conclusion"] == "action_required"
    assert overall(first, "resolved")["reasons"] == ["NO_BASELINE"]


def test_the_candidate_trial_ends_with_a_verdict_on_50_pairs(
    journey: Journey, concluded: list[dict[str, Any]]
) -> None:
    second = concluded[1]
    before, after = rewards(TRIALS[0]), rewards(TRIALS[1])

    verdict = overall(second, "resolved")

    assert verdict["n"]["pairs"] == 50
    difference = (sum(after.values()) - sum(before.values())) / 50
    assert verdict["delta"] == pytest.approx(difference, abs=1e-12)
    assert verdict["ci95"][0] < difference < verdict["ci95"][1]
    # Two trials of one agent: a difference that this much data cannot tell from noise.
    assert verdict["verdict"] == "INCONCLUSIVE"
    assert second["conclusion"] == "neutral"
    assert second["findings"] == []
    told = journey.evalhub("verdict", second["plan"])
    assert told.code == 0
    assert f"{difference:+.3g}" in told.out


def test_every_transcript_can_be_read_as_it_was(
    journey: Journey, concluded: list[dict[str, Any]]
) -> None:
    records = {f"task-{run['task_id']}": run for run in json.loads(TRIALS[1].read_text())}

    runs = journey.good("runs", concluded[1]["plan"])["runs"]

    assert {run["scenario"]: run["outcome"] for run in runs} == {
        name: "passed" if record["reward"] == 1 else "failed" for name, record in records.items()
    }
    run = next(run for run in runs if run["scenario"] == "task-7")
    transcript = journey.good("transcript", str(run["id"]))
    texts = [turn["text"] for turn in transcript["turns"] if turn["text"] is not None]
    assert texts == [m["content"] for m in records["task-7"]["traj"] if m["content"] is not None]


def test_each_commit_gets_its_check(concluded: list[dict[str, Any]], github: GitHubStandIn) -> None:
    def bodies() -> list[dict[str, Any]]:
        asked = github.asked(PROJECT)
        return [one.body for one in asked if one.method != "GET" and one.body is not None]

    def words() -> list[str]:
        return [body["conclusion"] for body in bodies() if "conclusion" in body]

    assert wait_for(lambda: len(words()) >= 2, 60)

    created = [body["head_sha"] for body in bodies() if "head_sha" in body]
    assert sorted(set(created)) == HEADS
    assert (words()[0], words()[-1]) == tuple(one["conclusion"] for one in concluded)
