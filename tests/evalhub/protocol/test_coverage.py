"""Coverage: which evidence an outcome owes."""

import pytest

from evalhub.protocol.coverage import RunEvidence, missing_lane_evidence, missing_run_evidence
from evalhub.protocol.plan import PlannedLane, RunKey
from tests.evalhub.protocol.documents import lane

KEY = RunKey("lookup", "candidate", 1)
FOLDER = "runs/lookup/candidate/1"
ALL = ["result", "transcript", "judge"]


def planned(run: list[str], own: list[str] | None = None) -> PlannedLane:
    expects = {"run": run, "lane": own or []}
    fields = lane("orders", ["orders"], [list(KEY)], expects=expects)
    return PlannedLane.model_validate({**fields, "runs": [tuple(KEY)]})


def missing(evidence: RunEvidence | None, *, expected: list[str] = ALL) -> list[str]:
    runs = {KEY: evidence} if evidence is not None else {}
    found = missing_run_evidence(planned(expected), runs, judged_rubrics=["resolved", "tone"])
    return found.get(KEY, [])


def evidence(
    outcome: str | None, *, parts: int = 0, have: tuple[int, ...] = (), judged: tuple[str, ...] = ()
) -> RunEvidence:
    return RunEvidence(outcome, parts, frozenset(have), frozenset(judged))


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_measured_run_owes_all(outcome: str) -> None:
    assert missing(evidence(outcome, parts=2, have=(1, 2), judged=("resolved", "tone"))) == []
    assert missing(evidence(outcome, parts=2, have=(2,), judged=("tone",))) == [
        f"{FOLDER}/transcript.1.ndjson",
        f"{FOLDER}/judge (resolved)",
    ]


@pytest.mark.parametrize("outcome", ["agent_error", "agent_timeout"])
def test_agents_own_error_owes_no_judgement(outcome: str) -> None:
    assert missing(evidence(outcome, parts=1, have=(1,))) == []
    assert missing(evidence(outcome)) == [f"{FOLDER}/transcript.1.ndjson"]


@pytest.mark.parametrize(
    "outcome",
    [
        *("timeout", "budget_exceeded", "infra_error", "setup_error"),
        *("simulator_error", "judge_error", "skipped"),
    ],
)
def test_unmeasured_run_owes_its_result_alone(outcome: str) -> None:
    assert missing(evidence(outcome, parts=5)) == []


def test_run_without_a_result_owes_it_whatever_else_is_there() -> None:
    assert missing(None) == [f"{FOLDER}/result.json"]
    assert missing(evidence(None, have=(1,), judged=("resolved", "tone"))) == [
        f"{FOLDER}/result.json"
    ]


def test_transcript_that_the_result_does_not_name_is_owed_all_the_same() -> None:
    assert missing(evidence("passed", judged=("resolved", "tone"))) == [
        f"{FOLDER}/transcript.1.ndjson"
    ]


def test_what_the_lane_does_not_expect_is_not_missed() -> None:
    assert missing(evidence("passed"), expected=["result"]) == []


def test_lanes_own_records() -> None:
    lane_ = planned(["result"], ["preflight", "log:agent", "log:judge"])

    assert missing_lane_evidence(lane_, ["lane/logs/agent.3.log"]) == [
        "lane/preflight.json",
        "lane/logs/judge.1.log",
    ]
    assert missing_lane_evidence(planned(["result"]), []) == []
