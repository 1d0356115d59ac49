"""Lanes with an agent that does what the test tells it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.protocol.plan import Plan
from evalhub.runner.client import Store
from evalhub.runner.delivery import DeliveryReport
from evalhub.runner.documents import Loaded
from evalhub.runner.lane import LaneRequest, run_lane
from tests.evalhub.runner.documents import make_plan, make_scenario, make_suite, written
from tests.evalhub.runner.loopback import RUN_TOKEN

# An agent whose behavior is the name of its scenario.
AGENT = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["EVALHUB_RUN_DIR"])
what = os.environ["EVALHUB_SCENARIO"].rstrip("0123456789")
print("agent works on", os.environ["EVALHUB_SCENARIO"], flush=True)
if what == "crash":
    sys.exit("KeyError: 'x'")
with (folder / "transcript.ndjson").open("w") as file:
    file.write(json.dumps({"turn": 1, "role": "user", "kind": "message", "text": "begin"}) + "\\n")
if what == "slow":
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(300)
if what == "rewrite":
    # Waits until the lane has sent what it wrote, and writes its last turn anew: an answer grows.
    turns = [{"turn": 1, "role": "user", "kind": "message", "text": "begin"}]
    for text in ("thinki", "answer"):
        growing = [*turns, {"turn": 2, "role": "assistant", "kind": "message", "text": text}]
        (folder / "transcript.ndjson").write_text("".join(json.dumps(t) + "\\n" for t in growing))
        origins = folder.parents[3] / "origins.ndjson"
        before = origins.read_text() if origins.exists() else ""
        while not origins.exists() or "transcript" not in origins.read_text()[len(before):]:
            time.sleep(0.05)
    time.sleep(300)
if what == "environment":
    (folder / "files").mkdir()
    (folder / "files" / "environment.json").write_text(json.dumps(dict(os.environ)))
if what == "remember":
    memory = pathlib.Path(os.environ["EVALHUB_MEMORY_DIR"])
    (memory / os.environ["EVALHUB_EPOCH"]).write_text("known")
    print("remembers", sorted(path.name for path in memory.iterdir()))
if what == "invalid":
    (folder / "result.json").write_text("{}")
    sys.exit()
(folder / "result.json").write_text(json.dumps({"outcome": "passed", "scores": {"resolved": 1.0}}))
"""


class MadeLane(NamedTuple):
    """A plan on disk with one lane `ordinary-1`, and an agent to run it with."""

    folder: Path
    plan: Loaded[Plan]
    command: list[str]

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def attempt(self) -> Path:
        (path,) = self.spool.iterdir()
        return path


def make_lane(folder: Path, *scenarios: str, **fields: Any) -> MadeLane:
    """Return a lane whose scenarios are named for what the agent does: ok, crash, slow, …"""
    defaults = {"suite": make_suite(*map(make_scenario, scenarios or ("ok",))), "lanes": 1}
    plan = make_plan(**{**defaults, **fields})
    written(folder, plan.document)
    agent = folder / "agent.py"
    agent.write_text(AGENT)
    return MadeLane(folder, plan, [sys.executable, str(agent)])


def run(made: MadeLane, url: str, **fields: Any) -> tuple[DeliveryReport, list[str]]:
    """Run the lane in this process; return how it ended and what it said."""
    said: list[str] = []
    store = Store(url, RUN_TOKEN)
    defaults = {
        "plan": made.plan,
        "plan_bytes": (made.folder / "plan.json").read_bytes(),
        "lane": made.plan.model.lanes[0],
        "command": made.command,
        "jobs": 2,
        "spool": made.spool,
        "environment": {**os.environ, "EVALHUB_TOKEN": RUN_TOKEN},
    }
    try:
        return run_lane(store, LaneRequest(**{**defaults, **fields}), report=said.append), said
    finally:
        store.close()


def lane_process(
    made: MadeLane, url: str, *flags: str, program: Sequence[str] = (sys.executable,)
) -> "subprocess.Popen[str]":
    """Start `evalhub lane run` as a process of its own; the agent's command stands last as it is."""
    command = [*program, "-m", "evalhub.runner.cli", "lane", "run"]
    command += ["--plan", str(made.folder / "plan.json"), "--lane", made.plan.model.lanes[0].name]
    command += ["--spool", str(made.spool), *flags, *made.command]
    return _started(command, url)


def push_process(url: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start `evalhub push` as a process of its own."""
    return _started([sys.executable, "-m", "evalhub.runner.cli", "push", *arguments], url)


def _started(command: Sequence[str], url: str) -> "subprocess.Popen[str]":
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("EVALHUB_", "GITHUB_"))}
    return subprocess.Popen(
        command,
        env={**kept, "EVALHUB_URL": url, "EVALHUB_TOKEN": RUN_TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
