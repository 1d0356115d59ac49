"""No path leads from missing, unscored or refused evidence to a success."""

from datetime import timedelta

import pytest

from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from gates.decisions.operations.conclusion import conclude
from gates.decisions.queries import unconcluded_plans
from tests.evidence.factories import run_keys, seal_attempt, send_members
from tests.gates.decisions.stories import altered, arm, lane
from tests.gates.factories import (
    CATEGORIES,
    Told,
    codes,
    concluded,
    deliver,
    lane_names,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
    verdict,
)
from tests.lanes.factories import BASE_SHA, NOW, make_attempt

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_lane_that_never_came_fails_with_its_run_keys() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    assert conclude(plan, at=NOW) is None

    conclusion = concluded(plan)

    assert conclusion.conclusion == "failure"
    found = codes(conclusion)
    assert found["missing"]["class"] == "evidence"
    assert len(found["missing"]["subjects"]) == 16
    assert "refunds-00/candidate/1" in found["missing"]["subjects"]
    assert found["unmeasured_lane"]["subjects"] == ["ordinary-3"]
    assert "16 pieces of evidence are missing" in conclusion.title


def test_lane_killed_in_the_middle_fails_at_the_deadline() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    attempt = make_attempt(plan, "ordinary-3")
    keys = run_keys(attempt)
    deliver(attempt, steady("candidate"), keys=keys[:15])
    late = NOW + timedelta(minutes=241)
    assert plan not in unconcluded_plans(at=NOW)
    assert plan in unconcluded_plans(at=late)

    conclusion = concluded(plan, at=late)

    assert conclusion.conclusion == "failure"
    assert codes(conclusion)["missing"]["subjects"] == [str(keys[15])]
    assert codes(conclusion)["unsealed_lane"]["subjects"] == ["ordinary-3"]
    assert plan not in unconcluded_plans(at=late)


def test_complete_lane_that_never_sealed_fails() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    deliver(make_attempt(plan, "ordinary-3"), steady("candidate"))

    conclusion = concluded(plan)

    assert conclusion.conclusion == "failure"
    assert list(codes(conclusion)) == ["unsealed_lane"]


def test_missing_judge_lines_fail() -> None:
    project = make_gated_project()
    make_baseline(project)

    def drop_one(key: RunKey, told: Told) -> Told:
        return told._replace(judged={"resolved": 1.0}) if key.scenario == "orders-01" else told

    conclusion = make_conclusion(project, altered(steady("candidate"), drop_one))

    assert conclusion.conclusion == "failure"
    assert codes(conclusion)["missing"]["subjects"] == [
        f"runs/orders-01/candidate/{epoch}/judge (correctness)" for epoch in (1, 2)
    ]


def test_judge_that_gave_no_value_at_all_is_not_a_pass() -> None:
    project = make_gated_project()
    make_baseline(project)

    def unscored(key: RunKey, told: Told) -> Told:
        return told._replace(judged={**told.judged, "correctness": None})

    conclusion = make_conclusion(project, altered(steady("candidate"), unscored))

    assert conclusion.conclusion == "action_required"
    assert verdict(conclusion, rubric="correctness")["verdict"] == "INCONCLUSIVE"
    assert conclusion.content["data_reasons"] == ["NOT_JUDGED"]


def test_some_scores_missing_cap_a_pass_on_a_pull_request_too() -> None:
    project = make_gated_project()
    make_baseline(project)

    def unscored(key: RunKey, told: Told) -> Told:
        lost = key.scenario.startswith("refunds") and key.epoch == 1
        return told._replace(judged={**told.judged, "correctness": None}) if lost else told

    conclusion = make_conclusion(project, altered(steady("candidate"), unscored))

    assert conclusion.conclusion == "action_required"
    assert "MISSING" in verdict(conclusion, rubric="correctness")["reasons"]


def test_baseline_without_any_measured_run_compares_nothing() -> None:
    project = make_gated_project()
    arms = [arm("candidate"), arm("baseline:luna-6", sha=BASE_SHA)]
    lanes = [lane(f"ordinary-{i}", c) for i, c in enumerate(CATEGORIES)] + [
        lane(f"baseline-{i}", c, kind="baseline", arms=["baseline:luna-6"])
        for i, c in enumerate(CATEGORIES)
    ]
    plan = make_scored_plan(
        project, arms=arms, lanes=lanes, limits={"ordinary": 3, "baseline": 3, "max_parallel": 6}
    )

    def broken(key: RunKey) -> Told | None:
        if key.arm == "candidate":
            return steady("candidate")(key)
        return Told(judged={}, latency_s=None, outcome="infra_error")

    run_lanes(plan, broken)
    conclusion = concluded(plan)

    assert conclusion.conclusion == "failure"
    assert len(codes(conclusion)["unmeasured_lane"]["subjects"]) == 3
    assert "NO_BASELINE" in verdict(conclusion, rubric="correctness")["reasons"]


def test_second_different_item_for_a_path_is_named_and_never_averaged() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    attempt = make_attempt(plan, "ordinary-3")
    deliver(attempt, steady("candidate"))
    deliver(attempt, steady("other", drop=6))
    seal_attempt(attempt)

    conclusion = concluded(plan)

    assert codes(conclusion)["duplicate"]["effect"] == "note"
    assert len(codes(conclusion)["duplicate"]["subjects"]) == 32
    assert verdict(conclusion, rubric="correctness")["runs"]["c"] == 48
    assert conclusion.conclusion == "success"


def test_required_evidence_that_lies_only_in_quarantine_is_missing() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    attempt = make_attempt(plan, "ordinary-3")
    deliver(attempt, steady("candidate"))
    second_part = f"{run_folder(run_keys(attempt)[0])}/judge.2.ndjson"
    send_members(attempt, {second_part: b'{"rubric": "correctness", "value": NaN}\n'})
    seal_attempt(attempt)

    conclusion = concluded(plan)

    assert conclusion.conclusion == "failure"
    assert codes(conclusion)["missing"]["subjects"] == [second_part]
    assert codes(conclusion)["malformed"]["subjects"] == [f"ordinary-3: {second_part}"]


def test_later_attempt_makes_up_for_evidence_in_quarantine() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"), lanes=lane_names(plan)[:2])
    attempt = make_attempt(plan, "ordinary-3")
    deliver(attempt, steady("candidate"))
    second_part = f"{run_folder(run_keys(attempt)[0])}/judge.2.ndjson"
    send_members(attempt, {second_part: b"not JSON\n"})
    run_lanes(plan, steady("candidate"), lanes=["ordinary-3"])

    conclusion = concluded(plan)

    assert conclusion.conclusion == "success"
    assert codes(conclusion)["malformed"]["subjects"] == [f"ordinary-3: {second_part}"]
