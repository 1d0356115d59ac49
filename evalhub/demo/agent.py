"""One run of the demo agent: `python -m evalhub.demo.agent --commit SHA [--defect CATEGORY]`.

`evalhub lane run` starts it once per run key and tells it by environment variables what to do.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from evalhub.demo import judging
from evalhub.demo.chance import unit
from evalhub.demo.payments import JsonObject, Payments, SimulatorGoneError
from evalhub.demo.scripted import DEFECTS, Ending, Habits, ScriptedAgent
from evalhub.demo.transcript import AGENT_NAME, Transcript, timestamp
from evalhub.runner import clock

STAGES = Path(__file__).parent / "stages.json"
# In one run of five; a quarter of the scenarios need a later page, so about one run in twenty fails:
# enough failed runs to read, too few to look like a change.
IMPATIENCE = 1 / 5
_INTRODUCTION = (
    "This agent is a scripted program without a language model. It follows the steps of its scenario "
    "by real HTTP requests to a simulated payments service, so what follows is a true record of what "
    "it did. Its judges are fixed rules and a seeded noisy scorer."
)


class Surroundings(NamedTuple):
    """What the lane says about this run."""

    folder: Path
    scenario_file: Path
    name: judging.RunName
    simulator_url: str
    simulator_key: str
    notes: Path | None


def main(argv: list[str]) -> int:
    """Do one run and leave its records in EVALHUB_RUN_DIR."""
    parser = argparse.ArgumentParser(prog="python -m evalhub.demo.agent", description=__doc__)
    parser.add_argument("--name", action="version", version=AGENT_NAME, help="say its name")
    parser.add_argument("--commit", required=True, help="the commit that this agent is built from")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="be worse in this category")
    options = parser.parse_args(argv)
    try:
        around = surroundings(os.environ, commit=options.commit)
    except KeyError as error:
        sys.stderr.write(f"{error.args[0]} is not set; `evalhub lane run` sets it.\n")
        return 2
    # The C loader reads a scenario in a millisecond; the plain one needs ten.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    scenario = yaml.load(around.scenario_file.read_text(), Loader=loader)  # noqa: S506 - both are safe
    transcript = Transcript()
    try:
        with Payments(around.simulator_url, around.simulator_key) as payments:
            result = run(scenario, around, payments, transcript, defect=options.defect)
    except SimulatorGoneError as error:
        result = _not_measured(error)
    write_json(around.folder / "result.json", result)
    (around.folder / "transcript.ndjson").write_text(transcript.lines())
    return 0


def surroundings(environment: Mapping[str, str], *, commit: str) -> Surroundings:
    """Read the lane's variables; raise KeyError that names an absent one."""
    run_name = judging.RunName(
        scenario=environment["EVALHUB_SCENARIO"],
        arm=environment["EVALHUB_ARM"],
        epoch=int(environment["EVALHUB_EPOCH"]),
        commit=commit,
    )
    notes = None
    if environment.get("EVALHUB_MEMORY") == "1":
        file = re.sub(r"[^A-Za-z0-9-]", "_", f"{run_name.scenario}-{run_name.arm}")
        notes = Path(environment["EVALHUB_MEMORY_DIR"]) / f"{file}-{run_name.epoch}.json"
    return Surroundings(
        folder=Path(environment["EVALHUB_RUN_DIR"]),
        scenario_file=Path(environment["EVALHUB_SCENARIO_FILE"]),
        name=run_name,
        simulator_url=environment["EVALHUB_SIMULATOR_URL"],
        simulator_key=environment["EVALHUB_SIMULATOR_KEY"],
        notes=notes,
    )


def habits_of(name: judging.RunName, *, category: str, defect: str | None) -> Habits:
    """Return how the agent works in this run; a defect shows in its own category only."""
    return Habits(
        is_impatient=unit("impatience", *name) < IMPATIENCE,
        defect=defect if defect == category else None,
    )


def run(
    scenario: JsonObject,
    around: Surroundings,
    payments: Payments,
    transcript: Transcript,
    *,
    defect: str | None,
) -> JsonObject:
    """Do the run, judge it, write judge lines and failure; return the result.

    Raises:
        SimulatorGoneError: if the payments world does not answer.
    """
    # Every run begins in the seeded world, whatever the run before it did.
    fresh = payments.request("POST", "/_evalhub/reset", {}).data
    if around.notes is not None:
        # Notes of an earlier attempt would answer for this one.
        around.notes.unlink(missing_ok=True)
    habits = habits_of(around.name, category=scenario["category"], defect=defect)
    started_at, begun = clock.now(), time.monotonic()
    transcript.add("system", "message", _INTRODUCTION)
    agent = ScriptedAgent(payments, transcript, habits, around.notes)
    ending = agent.work(scenario["task"], scenario["steps"])
    seconds = time.monotonic() - begun
    finished_at = clock.now()
    final = payments.request("GET", "/_evalhub/state", {}).data
    facts = judging.checked_facts(
        scenario["expect"], judging.final_world(payments), answer=ending.answer
    )
    _write_judgement(facts, ending, transcript, around)
    return {
        "outcome": "passed" if all(fact.holds for fact in facts) else "failed",
        "started_at": timestamp(started_at),
        "finished_at": timestamp(finished_at),
        "duration_ms": round(seconds * 1000),
        "scores": {"latency_s": round(seconds, 4), "requests": len(transcript.calls)},
        "usage": [],
        "world": {"seed_digest": fresh["seed_digest"], "final_digest": final["final_digest"]},
    }


def _write_judgement(
    facts: list[judging.Fact], ending: Ending, transcript: Transcript, around: Surroundings
) -> None:
    stages = json.loads(STAGES.read_text())
    fingerprints = {stage["rubric"]: stage["fingerprint"] for stage in stages}
    lines = judging.judge_lines(facts, ending, transcript, around.name, fingerprints=fingerprints)
    (around.folder / "judge.ndjson").write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    )
    reason = judging.failure(facts, ending, transcript)
    if reason is not None:
        write_json(around.folder / "failure.json", reason)


def _not_measured(error: SimulatorGoneError) -> JsonObject:
    return {
        "outcome": "simulator_error",
        "code": "simulator_gone",
        "error": {"origin": "simulator", "type": "SimulatorGone", "message": str(error)},
    }


def write_json(path: Path, document: JsonObject) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
