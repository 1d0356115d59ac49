"""The demo agent against a real payments world: what it leaves behind, and how it gets worse."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalhub.demo import agent, judging
from evalhub.demo.build_suite import ROOT, scenario_files
from evalhub.demo.payments import Payments
from evalhub.demo.scripted import DEFECTS, Ending, Habits, ScriptedAgent
from evalhub.demo.transcript import Transcript
from evalhub.protocol.faults import parse_document
from evalhub.protocol.records import Failure, JudgeLine, Result, Turn
from evalhub.runner.simulator.child import RunningSimulator, start_simulator

pytestmark = pytest.mark.slow

COMMIT = "c" * 40
CLEAN = Habits(is_impatient=False, defect=None)
IMPATIENT = Habits(is_impatient=True, defect=None)


@pytest.fixture(scope="module", params=[1, 7])
def world(request: pytest.FixtureRequest) -> Iterator[RunningSimulator]:
    """A world; the suite must not depend on which seed it has."""
    with start_simulator(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def one_world() -> Iterator[RunningSimulator]:
    with start_simulator(1) as running:
        yield running


class Outcome:
    """What one run of a scenario led to, by the agent and its judges."""

    def __init__(
        self, path: Path, world: RunningSimulator, habits: Habits, notes: Path | None
    ) -> None:
        scenario = yaml.safe_load(path.read_text())
        world.reset()
        self.category: str = scenario["category"]
        self.transcript = Transcript()
        with Payments(world.url, world.key) as payments:
            worker = ScriptedAgent(payments, self.transcript, habits, notes)
            self.ending: Ending = worker.work(scenario["task"], scenario["steps"])
            self.facts = judging.checked_facts(
                scenario["expect"], judging.final_world(payments), answer=self.ending.answer
            )

    @property
    def is_resolved(self) -> bool:
        return all(fact.holds for fact in self.facts)


def scenario_named(name: str) -> Path:
    return next(path for path in scenario_files() if path.stem == name)


@pytest.mark.parametrize("path", scenario_files(), ids=lambda path: path.stem)
def test_sound_agent_resolves_every_scenario(
    path: Path, world: RunningSimulator, tmp_path: Path
) -> None:
    outcome = Outcome(path, world, CLEAN, tmp_path / "notes.json")

    assert outcome.is_resolved, outcome.facts
    assert outcome.ending.given_up is None


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_defect_breaks_most_of_its_category(
    defect: str, one_world: RunningSimulator, tmp_path: Path
) -> None:
    outcomes = [
        Outcome(path, one_world, Habits(is_impatient=False, defect=defect), tmp_path / path.stem)
        for path in scenario_files()
        if path.parent.name == defect
    ]

    broken = [outcome for outcome in outcomes if not outcome.is_resolved]

    assert len(broken) >= 4
    assert len(broken) >= len(outcomes) - 1


def test_defect_shows_in_its_own_category_only() -> None:
    name = judging.RunName("refund-part", "candidate", 1, COMMIT)

    assert agent.habits_of(name, category="refunds", defect="refunds").defect == "refunds"
    assert agent.habits_of(name, category="memory", defect="refunds").defect is None


def test_ignored_amount_is_seen_in_the_transcript(one_world: RunningSimulator) -> None:
    path = scenario_named("refund-part")

    sound = Outcome(path, one_world, CLEAN, None)
    worse = Outcome(path, one_world, Habits(is_impatient=False, defect="refunds"), None)

    sent = [json.loads(o.transcript.calls[-1]["tool"]["arguments"]) for o in (sound, worse)]
    assert sent[0]["amount"] == 1500
    assert "amount" not in sent[1]
    assert sent[0]["payment_intent"] == sent[1]["payment_intent"]


def test_impatient_agent_gives_up_where_a_later_page_is_needed(
    one_world: RunningSimulator, tmp_path: Path
) -> None:
    outcomes = [
        Outcome(path, one_world, IMPATIENT, tmp_path / path.stem) for path in scenario_files()
    ]

    given_up = [outcome for outcome in outcomes if outcome.ending.given_up is not None]

    # About a quarter: with IMPATIENCE this makes some five failed runs of a hundred.
    assert 5 <= len(given_up) <= 14
    assert not any(outcome.is_resolved for outcome in given_up)
    assert all("in the list that I read" in str(outcome.ending.given_up) for outcome in given_up)


def test_memory_off_means_that_nothing_is_remembered(one_world: RunningSimulator) -> None:
    outcome = Outcome(scenario_named("remember-order"), one_world, CLEAN, None)

    assert not outcome.is_resolved
    assert outcome.ending.given_up == "my notes say nothing about the order."


def run_agent(
    folder: Path, world: RunningSimulator, *arguments: str, scenario: str, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "EVALHUB_RUN_DIR": str(folder),
        "EVALHUB_SCENARIO": scenario,
        "EVALHUB_SCENARIO_FILE": str(scenario_named(scenario)),
        "EVALHUB_ARM": "candidate",
        "EVALHUB_EPOCH": "1",
        "EVALHUB_SIMULATOR_URL": world.url,
        "EVALHUB_SIMULATOR_KEY": world.key,
        **more,
    }
    return subprocess.run(
        [sys.executable, "-m", "evalhub.demo.agent", "--commit", COMMIT, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def read_result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())


def test_run_leaves_records_that_the_protocol_reads(
    tmp_path: Path, one_world: RunningSimulator
) -> None:
    finished = run_agent(tmp_path, one_world, scenario="refund-goodwill")

    assert (finished.returncode, finished.stderr) == (0, "")
    result = parse_document(Result, (tmp_path / "result.json").read_bytes())
    turns = [parse_document(Turn, line) for line in read_lines(tmp_path / "transcript.ndjson")]
    lines = [parse_document(JudgeLine, line) for line in read_lines(tmp_path / "judge.ndjson")]
    assert result.outcome == "passed"
    assert result.world is not None
    assert result.world.seed_digest == one_world.started["seed_digest"]
    assert result.world.final_digest != result.world.seed_digest
    assert [turn.turn for turn in turns] == list(range(1, len(turns) + 1))
    assert turns[0].role == "system"
    assert "without a language model" in str(turns[0].text)
    assert (lines[0].rubric, lines[0].stage, lines[0].value) == ("resolved", "check", 1)
    assert "not a model" in str(lines[1].rationale)
    assert all(line.cites and max(line.cites) <= len(turns) for line in lines)
    assert {line.cost_microusd for line in lines} == {0}
    assert not (tmp_path / "failure.json").exists()


def test_failed_run_says_why(tmp_path: Path, one_world: RunningSimulator) -> None:
    run_agent(tmp_path, one_world, "--defect", "refunds", scenario="refund-goodwill")

    failure = parse_document(Failure, (tmp_path / "failure.json").read_bytes())
    assert read_result(tmp_path)["outcome"] == "failed"
    assert failure.category == "wrong_result"
    assert "the refunds of order A-1050: expected [750]" in failure.root_cause
    assert failure.by == "rules"


def test_notes_of_an_earlier_attempt_do_not_help(
    tmp_path: Path, one_world: RunningSimulator
) -> None:
    memory = {"EVALHUB_MEMORY": "1", "EVALHUB_MEMORY_DIR": str(tmp_path)}

    run_agent(tmp_path, one_world, scenario="remember-plan", **memory)
    first = read_result(tmp_path)["outcome"]
    run_agent(tmp_path, one_world, "--defect", "memory", scenario="remember-plan", **memory)

    assert first == "passed"
    assert read_result(tmp_path)["outcome"] == "failed"


def test_absent_world_is_no_fault_of_the_agent(tmp_path: Path, one_world: RunningSimulator) -> None:
    gone = {"EVALHUB_SIMULATOR_URL": "http://127.0.0.1:9"}

    finished = run_agent(tmp_path, one_world, scenario="refund-part", **gone)

    result = parse_document(Result, (tmp_path / "result.json").read_bytes())
    assert finished.returncode == 0
    assert result.outcome == "simulator_error"
    assert result.error is not None
    assert "did not answer POST /_evalhub/reset" in result.error.message


def test_absent_variable_is_named(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "evalhub.demo.agent", "--commit", COMMIT],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 2
    assert finished.stderr == "EVALHUB_SCENARIO is not set; `evalhub lane run` sets it.\n"


def test_helpfulness_is_noise_around_what_the_facts_give() -> None:
    held = [judging.Fact(holds=True, text="a"), judging.Fact(holds=True, text="b")]
    broken = [judging.Fact(holds=False, text="a"), judging.Fact(holds=True, text="b")]
    done, admitted = Ending("done", None), Ending("I could not", "why")
    names = [judging.RunName("s", "candidate", epoch, COMMIT) for epoch in range(400)]

    def mean(facts: list[judging.Fact], ending: Ending) -> float:
        scores = [judging.helpfulness(facts, ending, name) for name in names]
        assert len(set(scores)) > 10
        return sum(scores) / len(scores)

    assert mean(held, done) == pytest.approx(8.5, abs=0.1)
    assert mean(broken, done) == pytest.approx(2.75, abs=0.1)
    assert mean(broken, admitted) == pytest.approx(3.75, abs=0.1)
