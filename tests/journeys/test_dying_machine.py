"""A machine dies in the middle of a run: what the run had said is read, and a copy of its disk does the rest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalhub.runner.errors import Exit
from tests.evalhub.runner.documents import make_policy, make_scenario, make_suite, written
from tests.programs.evalhub import Evalhub, Up, clean_environment
from tests.programs.processes import descendants, survivors, wait_for
from tests.programs.server import ROOT

pytestmark = pytest.mark.journey

PROJECT = "acme/support-agent"
# Ends by itself in one scenario, and in the other goes on until its machine is gone.
AGENT = """
import json, os, pathlib, time
folder = pathlib.Path(os.environ["EVALHUB_RUN_DIR"])
with (folder / "transcript.ndjson").open("w") as file:
    for number in range(1, 10_000):
        turn = {"turn": number, "role": "assistant", "kind": "message", "text": f"turn {number}"}
        file.write(json.dumps(turn) + "\\n")
        file.flush()
        if os.environ["EVALHUB_SCENARIO"] == "short":
            break
        time.sleep(0.02)
(folder / "result.json").write_text(json.dumps({"outcome": "passed", "scores": {"resolved": 1.0}}))
"""


class Machine:
    """A machine with the installed client and a folder to work in."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        folder.mkdir()
        self.folder = folder
        self._environment = {
            **clean_environment(),
            "EVALHUB_URL": url,
            "EVALHUB_TOKEN": token,
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "evalhub.runner.cli", *arguments],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = Exit.GOOD) -> str:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        return out

    def told(self, *arguments: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run(*arguments, "--json"))
        return document


def register_plan(machine: Machine) -> str:
    suite = make_suite(*map(make_scenario, ("short", "long")))
    written(machine.folder, suite.document, "suite.json")
    written(machine.folder, make_policy().document, "policy.json")
    (machine.folder / "agent.py").write_text(AGENT)
    machine.run("suite", "put", "suite.json", "--project", PROJECT)
    machine.run("policy", "put", "policy.json", "--project", PROJECT)
    flags = ["--suite", "suite.json", "--policy", "policy.json", "--tier", "live", "--lanes", "1"]
    flags += ["--arm", "candidate=support-agent:luna-6", "--out", "plan.json"]
    machine.run("plan", "build", "--project", PROJECT, *flags)
    return str(machine.told("plan", "register", "plan.json")["digest"])


def turns_of(machine: Machine, digest: str, scenario: str) -> list[str]:
    runs = machine.told("runs", digest)["runs"]
    found = [run["id"] for run in runs if run["scenario"] == scenario]
    if not found:
        return []
    turns = machine.told("transcript", str(found[0]))["turns"]
    return [turn["text"] for turn in turns]


def test_a_run_is_read_after_its_machine_died_and_a_copy_of_the_disk_does_the_rest(
    tmp_path: Path,
) -> None:
    evalhub = Evalhub(tmp_path)
    evalhub.manage("migrate", "--no-input", "--verbosity", "0")
    created = evalhub.manage("create_project", PROJECT, "--repository-id", "1", "--json")
    token = json.loads(created)["token"]
    with Up(tmp_path / "data", EVALHUB_FLUSH_SECONDS="1") as up:
        machine = Machine(tmp_path / "dying", up.url, token)
        other = Machine(tmp_path / "other", up.url, token)
        digest = register_plan(machine)
        agent = ["--jobs", "2", "--", sys.executable, "agent.py"]
        lane = machine.start("lane", "run", "--plan", "plan.json", "--lane", "ordinary-1", *agent)
        with lane:
            is_read = wait_for(lambda: len(turns_of(other, digest, "long")) > 1, 120)
            family = descendants(lane.pid)
            lane.kill()
            _, err = lane.communicate()
        assert is_read, err
        assert wait_for(lambda: not survivors(family), 30)

        before = turns_of(other, digest, "long")
        assert before == [f"turn {number}" for number in range(1, len(before) + 1)]
        assert turns_of(other, digest, "short") == ["turn 1"]

        shutil.copytree(machine.folder / ".evalhub", other.folder / "artifact")
        shutil.rmtree(machine.folder)
        # The run never ended: it is missing, whoever sends what it said.
        out = other.run("push", "artifact", code=Exit.GATE_FAILED)
        after = turns_of(other, digest, "long")

    assert "is sealed" in out
    assert len(after) >= len(before)
    assert after == [f"turn {number}" for number in range(1, len(after) + 1)]
