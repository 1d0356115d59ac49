"""The main job, told twice: a plan for a baseline commit, then one for a candidate that is worse."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from evalhub.demo.build_suite import FOLDER, STAGES
from evalhub.demo.programs import Client, DemoError, JsonObject, Programs, Running
from evalhub.demo.transcript import AGENT_NAME, timestamp
from evalhub.runner.simulator.child import start_simulator
from evalhub.runner.simulator.seeding import seeded_world

PROJECT = "acme/payments-agent"
REPOSITORY_ID = 1296269
SUITE, POLICY, LANE_MAP = (
    FOLDER / "suite" / name for name in ("suite.yaml", "policy.yaml", "lanes.yaml")
)
EPOCHS = 3
SEED = 1
DEFECT = "refunds"
_AGENT = [sys.executable, "-m", "evalhub.demo.agent"]
# An undecided or failed gate is an answer here, not a failure of the demo.
_DECIDED = (0, 1, 3)
_CONCLUSION_SECONDS = 60
_CHECK_SECONDS = 30


class Chapter(NamedTuple):
    """One of the two commits: what it is called, what it is, how its agent is worse."""

    name: str
    commit: str
    source: list[str]
    defect: str | None
    epochs: int = EPOCHS


class GitHub(NamedTuple):
    """Where the stand-in answers."""

    url: str
    token: str

    def check_of(self, commit: str) -> JsonObject | None:
        """Return the newest check run of a commit, None where there is none."""
        answer = httpx.get(
            f"{self.url}/repos/{PROJECT}/commits/{commit}/check-runs",
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,
        )
        answer.raise_for_status()
        runs: list[JsonObject] = answer.json()["check_runs"]
        return runs[0] if runs else None


@dataclass(frozen=True)
class Told:
    """What came of one chapter."""

    chapter: Chapter
    digest: str
    url: str
    lanes: list[JsonObject]
    conclusion: JsonObject
    check: JsonObject

    def document(self) -> JsonObject:
        """Return the chapter for `demo.json`."""
        return {
            "name": self.chapter.name,
            "digest": self.digest,
            "commit": self.chapter.commit,
            "defect": self.chapter.defect,
            "url": self.url,
            "lanes": self.lanes,
            "items": items(self.lanes),
            "conclusion": self.conclusion["conclusion"],
            "title": self.conclusion["title"],
            "verdicts": self.conclusion["verdicts"],
            "check": self.check,
        }


def chapters(number: int) -> list[Chapter]:
    """Return the two commits of the demo's n-th run in one data directory.

    The commits follow from the number, so the first run always tells the same story.
    """
    base, head = (
        hashlib.sha256(f"{PROJECT} {name} {number}".encode()).hexdigest()[:40]
        for name in ("baseline", "candidate")
    )
    on_main = ["--event", "push", "--ref", "refs/heads/main"]
    on_pull = ["--event", "pull_request", "--ref", "refs/pull/12/head", "--pull-request", "12"]
    return [
        Chapter("baseline", base, [*on_main, "--base-sha", base], None),
        Chapter("candidate", head, [*on_pull, "--base-sha", base], DEFECT),
    ]


def observed_guards(programs: Programs, *, at: datetime) -> list[JsonObject]:
    """Return the guards of a plan, each by trying the thing itself."""
    _, name = programs.finished("agent-name", [*_AGENT, "--name"])
    with start_simulator(SEED) as running:
        seed_digest = running.state()["seed_digest"]
    return [
        _guard(
            "agent_registered",
            AGENT_NAME,
            name.strip(),
            at=at,
            fix="Install evalhub with its demo: pip install -e .",
        ),
        _guard(
            "simulator_up",
            seeded_world(SEED).digest(),
            seed_digest,
            at=at,
            fix="Install the simulator's parts: pip install 'evalhub[simulator]'",
        ),
    ]


def _guard(name: str, expected: str, observed: str, *, at: datetime, fix: str) -> JsonObject:
    return {
        "name": name,
        "expected": expected,
        "observed": [observed],
        "result": "ok" if observed == expected else "failed",
        "checked_at": timestamp(at),
        "fix": fix,
    }


def registered_plan(
    client: Client, chapter: Chapter, folder: Path, guards: Sequence[JsonObject]
) -> tuple[Path, JsonObject]:
    """Build, check and register the chapter's plan; return its file and the store's answer."""
    plan, guards_file = folder / f"{chapter.name}.plan.json", folder / "guards.json"
    guards_file.write_text(json.dumps(list(guards)))
    files = ["--suite", str(SUITE), "--policy", str(POLICY), "--lane-map", str(LANE_MAP)]
    commit = ["--head-sha", chapter.commit, "--tested-sha", chapter.commit]
    judged = ["--stages", str(STAGES), "--guards", str(guards_file)]
    world = [
        *("--tier", "sandboxed_interactive"),
        *("--simulator", "evalhub.payments", "--simulator-seed", str(SEED)),
    ]
    client.ask(
        *("plan", "build", "--project", PROJECT, "--out", str(plan), "--no-reuse"),
        *files,
        *("--epochs", str(chapter.epochs), "--arm", f"candidate={AGENT_NAME}:scripted"),
        *("--repository-id", str(REPOSITORY_ID)),
        *chapter.source,
        *commit,
        *judged,
        *world,
    )
    client.ask("plan", "check", str(plan), "--policy", str(POLICY), "--suite", str(SUITE))
    return plan, client.ask("plan", "register", str(plan))


@dataclass(frozen=True)
class Lane:
    """A lane that runs: its process and the file in which it says how far it is."""

    name: str
    total: int
    running: Running
    progress_file: Path

    @property
    def done(self) -> int:
        """Return how many runs have ended, as the lane itself says."""
        return int(self._progress().get("done", 0))

    @property
    def phase(self) -> str:
        return str(self._progress().get("phase", "starting"))

    def _progress(self) -> JsonObject:
        try:
            document: JsonObject = json.loads(self.progress_file.read_text())
        except FileNotFoundError:
            return {}
        return document

    def report(self) -> JsonObject:
        """Return what the lane reported at its end.

        Raises:
            DemoError: if it ended without a report.
        """
        answer = self.running.output.read_text(errors="replace")
        if not answer:
            raise DemoError(f"Lane {self.name} did not run: {self.running.last_words()}")
        return {"name": self.name, **json.loads(answer)}


def started_lanes(client: Client, chapter: Chapter, plan: Path, folder: Path) -> list[Lane]:
    """Start all lanes of a plan at once, each by the command that a user calls."""
    agent = [*_AGENT, "--commit", chapter.commit]
    if chapter.defect is not None:
        agent += ["--defect", chapter.defect]
    return [
        _started_lane(client, chapter, plan, lane, folder=folder, agent=agent)
        for lane in json.loads(plan.read_text())["lanes"]
    ]


def _started_lane(
    client: Client,
    chapter: Chapter,
    plan: Path,
    lane: JsonObject,
    *,
    folder: Path,
    agent: list[str],
) -> Lane:
    name = f"lane-{chapter.name}-{lane['name']}"
    progress = folder / f"{name}.progress.json"
    progress.unlink(missing_ok=True)
    command = [
        *(client.command, "lane", "run", "--json"),
        *("--plan", str(plan), "--lane", lane["name"], "--spool", str(folder / "spool")),
        *("--simulator", "evalhub.payments", "--simulator-seed", str(SEED)),
        *("--progress-file", str(progress), "--", *agent),
    ]
    running = client.programs.start(name, command, **client.variables)
    return Lane(lane["name"], len(lane["runs"]), running, progress)


def concluded(
    client: Client, github: GitHub, chapter: Chapter, answer: JsonObject, lanes: list[JsonObject]
) -> Told:
    """Close the plan, wait for its conclusion and for the check as GitHub's stand-in has it."""
    digest = answer["digest"]
    client.ask("plan", "close", digest)
    wait = ["--wait", str(_CONCLUSION_SECONDS)]
    conclusion = client.ask("verdict", digest, *wait, good=_DECIDED)
    if conclusion.get("conclusion") is None:
        raise DemoError(f"Plan {digest} was not decided within {_CONCLUSION_SECONDS} s.")
    check = _delivered(github, chapter.commit, conclusion["conclusion"])
    return Told(chapter, digest, answer["url"], lanes, conclusion, check)


def _delivered(github: GitHub, commit: str, conclusion: str) -> JsonObject:
    until = time.monotonic() + _CHECK_SECONDS
    check: JsonObject | None = None
    while time.monotonic() < until:
        check = github.check_of(commit)
        if check is not None and check["conclusion"] == conclusion:
            return check
        time.sleep(0.2)
    raise DemoError(
        f"The check of {commit[:12]} did not reach the stand-in as {conclusion} within "
        f"{_CHECK_SECONDS} s; it has {check and check['conclusion']}."
    )


def items(lanes: Sequence[JsonObject]) -> dict[str, int]:
    """Return how many items the store accepted and refused from these lanes."""
    return {name: sum(lane[name] for lane in lanes) for name in ("accepted", "refused")}


def summary(told: Sequence[Told]) -> dict[str, Any]:
    """Return `demo.json`; verdicts, conclusion and check are the candidate's."""
    candidate = told[-1]
    every_lane = [{"plan": one.digest, **lane} for one in told for lane in one.lanes]
    return {
        "plans": [one.document() for one in told],
        "lanes": every_lane,
        "items": items(every_lane),
        "verdicts": candidate.conclusion["verdicts"],
        "conclusion": candidate.conclusion["conclusion"],
        "check": candidate.check,
    }


Watch = Callable[[Chapter, list[Lane]], None]


def told_chapter(
    client: Client,
    github: GitHub,
    chapter: Chapter,
    *,
    folder: Path,
    guards: Sequence[JsonObject],
    watch: Watch,
) -> Told:
    """Tell one chapter from its plan to its check; `watch` returns when all lanes have ended."""
    plan, answer = registered_plan(client, chapter, folder, guards)
    lanes = started_lanes(client, chapter, plan, folder)
    watch(chapter, lanes)
    return concluded(client, github, chapter, answer, [lane.report() for lane in lanes])
