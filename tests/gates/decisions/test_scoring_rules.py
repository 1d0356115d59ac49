"""Crashes, repeats, tails and advisory parts: what counts against the agent and what does not."""

from typing import Any

import pytest

from evalhub.protocol.plan import RunKey
from tests.gates.decisions.stories import altered, arm, lane
from tests.gates.factories import (
    CATEGORIES,
    SCENARIOS,
    Told,
    codes,
    concluded,
    lane_names,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    rubrics,
    run_lanes,
    steady,
    verdict,
)

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_failing_run_called_infra_error_and_repeated_does_not_help() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)

    def hide_failures(key: RunKey, told: Told) -> Told:
        if key.scenario.startswith("refunds"):
            return Told(judged={}, latency_s=None, outcome="infra_error")
        return told

    run_lanes(plan, altered(steady("candidate"), hide_failures))
    hidden = concluded(plan)
    run_lanes(plan, steady("second try"), lanes=["ordinary-3"])
    repeated = concluded(plan)

    assert hidden.conclusion == "failure"
    assert repeated.conclusion == "action_required"
    assert repeated.generation == hidden.generation + 1
    assert len(codes(repeated)["unmeasured"]["subjects"]) == 16
    assert codes(repeated)["replaced"]["effect"] == "note"
    assert "MISSING" in verdict(repeated, rubric="correctness")["reasons"]


def test_attempts_pool_so_that_repeating_a_regression_does_not_hide_it() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("bad night", drop=4))
    first = concluded(plan)
    run_lanes(plan, steady("good night"))

    second = concluded(plan)

    assert first.conclusion == second.conclusion == "failure"
    row = verdict(second, rubric="correctness")
    assert row["runs"]["c"] == 2 * verdict(first, rubric="correctness")["runs"]["c"]
    assert row["delta"] == pytest.approx(-2, abs=0.1)
    assert [a["state"] for a in second.content["attempts"][:2]] == ["SUPERSEDED", "SEALED"]


def test_attempt_that_measured_nothing_takes_no_measured_run_away() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("bad night", drop=4))
    measured = verdict(concluded(plan), rubric="correctness")
    run_lanes(plan, lambda _: Told(judged={}, latency_s=None, outcome="infra_error"))

    again = concluded(plan)

    row = verdict(again, rubric="correctness")
    assert again.conclusion == "failure"
    assert (row["runs"], row["delta"], row["n"]) == (
        measured["runs"],
        measured["delta"],
        measured["n"],
    )
    assert not {"unmeasured", "unmeasured_lane"} & set(codes(again))


def test_score_outside_the_scale_never_counts() -> None:
    project = make_gated_project()
    make_baseline(project)

    def inflate(key: RunKey, told: Told) -> Told:
        judged = {**told.judged, "correctness": 70.0}
        return told._replace(judged=judged) if key.scenario == "orders-01" else told

    conclusion = make_conclusion(project, altered(steady("candidate"), inflate))

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["out_of_scale"]["subjects"] == [
        f"orders-01/candidate/{epoch} correctness" for epoch in (1, 2)
    ]
    assert verdict(conclusion, rubric="correctness")["mean_c"] < 10


def test_crash_of_the_agent_counts_against_it() -> None:
    project = make_gated_project()
    make_baseline(project)

    def crash(key: RunKey, told: Told) -> Told:
        if key.scenario.startswith("refunds"):
            return Told(judged={}, latency_s=9.0, outcome="agent_error")
        return told

    conclusion = make_conclusion(project, altered(steady("candidate"), crash))

    assert conclusion.conclusion == "failure"
    assert verdict(conclusion, rubric="correctness")["verdict"] == "REGRESSION"
    assert verdict(conclusion, rubric="resolved")["delta"] == pytest.approx(-1 / 3)
    assert "unmeasured" not in codes(conclusion)


def test_crash_that_the_policy_does_not_count_is_unmeasured() -> None:
    project = make_gated_project(count_against_agent=[])
    make_baseline(project)

    def crash(key: RunKey, told: Told) -> Told:
        if key.scenario.startswith("refunds"):
            return Told(judged={}, latency_s=9.0, outcome="agent_error")
        return told

    conclusion = make_conclusion(project, altered(steady("candidate"), crash))

    assert conclusion.conclusion == "failure"
    assert len(codes(conclusion)["unmeasured"]["subjects"]) == 16
    assert codes(conclusion)["unmeasured_lane"]["subjects"] == ["ordinary-3"]


def test_crash_on_a_rubric_without_scale_gives_no_verdict() -> None:
    project = make_gated_project(rubrics=rubrics(correctness={"scale": None}))
    make_baseline(project)

    def crash(key: RunKey, told: Told) -> Told:
        if key.scenario == "refunds-00":
            return Told(judged={}, latency_s=9.0, outcome="agent_error")
        return told

    conclusion = make_conclusion(project, altered(steady("candidate"), crash))

    assert conclusion.conclusion == "action_required"
    assert "NO_SCALE" in conclusion.content["data_reasons"]


def test_tail_over_its_ceiling_fails_without_a_regression() -> None:
    project = make_gated_project(rubrics=rubrics(latency_s={"ceiling": 12}))
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    row = verdict(conclusion, rubric="latency_s")
    assert conclusion.conclusion == "failure"
    assert (row["verdict"], row["reasons"][-1]) == ("INCONCLUSIVE", "CEILING_BREACH")
    assert "latency_s is over its ceiling too often" in conclusion.title
    assert conclusion.content["left_out"] == []


def test_tail_that_must_be_shown_is_not_left_out() -> None:
    project = make_gated_project(rubrics=rubrics(latency_s={"require": "non_inferiority"}))
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    assert conclusion.conclusion == "neutral"
    assert conclusion.content["left_out"] == []
    assert "too little data to decide latency_s" in conclusion.title


def test_too_few_runs_for_a_tail_are_no_success() -> None:
    project = make_gated_project()
    scenarios = [s for s in SCENARIOS if s[1] == "refunds"]
    make_baseline(project, scenarios=scenarios)

    conclusion = make_conclusion(project, steady("candidate"), scenarios=scenarios)

    assert conclusion.conclusion == "action_required"
    assert conclusion.content["data_reasons"] == ["TAIL_N"]


def test_slower_tail_regresses() -> None:
    project = make_gated_project()
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate", slower=3))

    assert conclusion.conclusion == "failure"
    assert "latency_s has a worse tail (p95 14.7 before, " in conclusion.title


def test_advisory_lane_is_shown_apart_and_its_absence_is_no_fault() -> None:
    project = make_gated_project()
    make_baseline(project)
    lanes = [lane(f"ordinary-{i}", c) for i, c in enumerate(CATEGORIES)]
    lanes.append(lane("extra", "refunds", kind="advisory", arms=["extra"]))
    arms = [arm("candidate"), arm("extra")]
    absent = make_scored_plan(project, arms=arms, lanes=lanes)
    run_lanes(absent, steady("candidate"), lanes=lane_names(absent)[:3])

    without = concluded(absent)
    run_lanes(absent, steady("candidate", drop=6), lanes=["extra"])
    with_it = concluded(absent)

    assert without.conclusion == with_it.conclusion == "success"
    assert without.content["advisory"] == []
    assert {row["arm"] for row in with_it.content["verdicts"]} == {"candidate"}
    shown = {row["rubric"]: (row["arm"], row["verdict"]) for row in with_it.content["advisory"]}
    assert shown["correctness"] == ("extra", "REGRESSION")


def test_scenario_tagged_advisory_is_shown_apart_and_never_gates() -> None:
    project = make_gated_project()
    make_baseline(project)

    def tag_refunds(document: Any) -> None:
        for scenario in document["scenarios"]:
            scenario["tags"] = ["advisory"] if scenario["category"] == "refunds" else []

    conclusion = make_conclusion(
        project, steady("candidate", drop=6, only="refunds"), edit=tag_refunds
    )

    assert verdict(conclusion, rubric="correctness")["verdict"] == "INCONCLUSIVE"
    assert verdict(conclusion, rubric="correctness")["n"]["c"] == 16
    shown = {row["rubric"]: row["verdict"] for row in conclusion.content["advisory"]}
    assert shown["correctness"] == "REGRESSION"
    # Tagging what fails takes it out of the comparison, and that is named.
    assert len(codes(conclusion)["suite_changed"]["subjects"]) == 8
    assert conclusion.conclusion == "action_required"
