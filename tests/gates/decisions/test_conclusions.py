"""What a plan means, from evidence that came through the real intake."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from gates.decisions.queries import newest_conclusions, unconcluded_plans
from gates.verdicts.models import BaselineKind, DecisionRecord
from lanes.plans.models import Plan, PlanState
from lanes.plans.operations.lifecycle import bump_inputs, close_plan
from tests.evidence.factories import run_keys, seal_attempt, send_members
from tests.gates.factories import (
    CATEGORIES,
    NEXT_SHA,
    OTHER_FINGERPRINT,
    SCENARIOS,
    Teller,
    Told,
    codes,
    concluded,
    deliver,
    lane_names,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    rubrics,
    run_lanes,
    steady,
    verdict,
    verdicts,
)
from tests.gates.verdicts.test_isolation import make_environment
from tests.lanes.factories import BASE_SHA, NOW, lane_document, make_attempt

pytestmark = pytest.mark.django_db


def altered(tell: Teller, change: Callable[[RunKey, Told], Told | None]) -> Teller:
    """Return an agent that leaves what `change` makes of each run."""

    def told(key: RunKey) -> Told | None:
        before = tell(key)
        return None if before is None else change(key, before)

    return told


def arm(name: str, *, sha: str = NEXT_SHA, condition: str = "clean", model: str = "luna-6") -> Any:
    return {
        "name": name,
        "subject": "support-agent",
        "model": model,
        "condition": condition,
        "sha": sha,
    }


def lane(name: str, category: str, **fields: Any) -> Any:
    scenarios = [s for s, c in SCENARIOS if c == category]
    expects = {"run": ["result", "judge"], "lane": []}
    return lane_document(name, category, scenarios, epochs=2, expects=expects, **fields)


def test_unchanged_agent_succeeds_and_what_cannot_be_shown_is_named() -> None:
    project = make_gated_project()
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    assert conclusion.conclusion == "success"
    assert verdict(conclusion, rubric="correctness")["verdict"] == "PASS"
    assert conclusion.content["left_out"] == ["latency_s (candidate, history)"]
    assert "2 of 2 rubrics pass" in conclusion.title
    assert "latency_s: no breach seen, safety not shown" in conclusion.title
    plan = Plan.objects.get(pk=conclusion.plan_id)
    assert (plan.state, plan.concluded_version) == (PlanState.CONCLUDED, plan.inputs_version)


def test_regression_in_one_category_fails_and_is_named_with_its_interval() -> None:
    project = make_gated_project()
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate", drop=3, only="refunds"))

    assert conclusion.conclusion == "failure"
    row = verdict(conclusion, rubric="correctness")
    assert (row["verdict"], row["confirmed"], row["comparison"]) == ("REGRESSION", True, "history")
    assert row["delta"] == pytest.approx(-1.0, abs=0.1)
    assert row["ci95"][0] < row["delta"] < row["ci95"][1] < 0
    assert "1 of 2 rubrics pass; correctness is worse by " in conclusion.title
    assert conclusion.title.count("on 24 scenarios") == 1
    in_refunds = verdict(conclusion, rubric="correctness", category="refunds")
    assert (in_refunds["verdict"], in_refunds["gates"]) == ("REGRESSION", False)
    assert verdict(conclusion, rubric="correctness", category="orders")["verdict"] == "PASS"


def test_small_drop_in_one_category_fails_only_where_categories_gate() -> None:
    tell = steady("candidate", drop=1, only="refunds")
    overall = make_gated_project()
    make_baseline(overall)
    by_category = make_gated_project(
        gate_by="category", rubrics=rubrics(correctness={"category_min_effect": 0.8})
    )
    make_baseline(by_category)

    lenient = make_conclusion(overall, tell)
    strict = make_conclusion(by_category, tell)

    assert verdict(lenient, rubric="correctness")["verdict"] != "REGRESSION"
    assert lenient.conclusion == "neutral"
    assert strict.conclusion == "failure"
    row = verdict(strict, rubric="correctness", category="refunds")
    assert (row["verdict"], row["gates"], row["floor"]) == ("REGRESSION", True, 0.8)
    assert "correctness in refunds is worse by" in strict.title


def test_first_plan_without_a_baseline_asks_for_action() -> None:
    conclusion = make_conclusion(make_gated_project(), steady("first"))

    assert conclusion.conclusion == "action_required"
    assert conclusion.content["data_reasons"] == ["NO_BASELINE"]
    assert "NO_BASELINE" in verdict(conclusion, rubric="correctness")["reasons"]
    assert "there is no baseline to compare with" in conclusion.title


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


def test_baseline_lane_of_the_same_plan_is_preferred_over_history() -> None:
    project = make_gated_project()
    make_baseline(project, steady("history", drop=5))
    arms = [arm("candidate"), arm("baseline:luna-6", sha=BASE_SHA)]
    lanes = [lane(f"ordinary-{i}", c) for i, c in enumerate(CATEGORIES)] + [
        lane(f"baseline-{i}", c, kind="baseline", arms=["baseline:luna-6"])
        for i, c in enumerate(CATEGORIES)
    ]
    plan = make_scored_plan(
        project, arms=arms, lanes=lanes, limits={"ordinary": 3, "baseline": 3, "max_parallel": 6}
    )
    run_lanes(plan, steady("candidate"))

    conclusion = concluded(plan)

    assert {row["comparison"] for row in verdicts(conclusion)} == {"concurrent"}
    assert verdict(conclusion, rubric="correctness")["verdict"] == "PASS"
    assert conclusion.conclusion == "success"


def test_judge_that_the_plan_does_not_name_is_no_success() -> None:
    project = make_gated_project()
    make_baseline(project)

    def other_judge(key: RunKey, told: Told) -> Told:
        return told._replace(fingerprint=OTHER_FINGERPRINT)

    conclusion = make_conclusion(project, altered(steady("candidate"), other_judge))

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["judge_changed"]["subjects"] == ["correctness/llm", "resolved/check"]
    assert "JUDGE_CHANGED" in verdict(conclusion, rubric="correctness")["reasons"]


def test_new_judge_that_the_plan_names_cannot_be_compared_either() -> None:
    project = make_gated_project()
    make_baseline(project)
    stages = [
        {"rubric": "correctness", "stage": "llm", "fingerprint": OTHER_FINGERPRINT},
        {"rubric": "resolved", "stage": "check", "fingerprint": OTHER_FINGERPRINT},
    ]

    def other_judge(key: RunKey, told: Told) -> Told:
        return told._replace(fingerprint=OTHER_FINGERPRINT)

    conclusion = make_conclusion(project, altered(steady("x"), other_judge), stages=stages)

    assert conclusion.conclusion == "action_required"
    assert "judge_changed" not in codes(conclusion)
    assert conclusion.content["data_reasons"] == ["JUDGE_CHANGED"]


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


def test_plans_of_one_commit_pool() -> None:
    project = make_gated_project()
    make_baseline(project)
    make_conclusion(project, steady("bad night", drop=4))

    again = make_conclusion(project, steady("good night"))

    assert again.conclusion == "failure"
    row = verdict(again, rubric="correctness")
    assert row["runs"] == {"b": 48, "c": 96}
    record = DecisionRecord.objects.get(digest=row["record"])
    assert len(record.content["pooled_plans"]["c"]) == 2


def test_plan_of_the_baseline_commit_is_not_compared_with_itself() -> None:
    project = make_gated_project()
    baseline = make_baseline(project)

    again = make_conclusion(project, steady("again"), sha=BASE_SHA)

    record = DecisionRecord.objects.get(digest=verdict(again, rubric="correctness")["record"])
    assert record.content["baseline_plan"] == baseline.plan.digest
    assert baseline.plan.digest not in record.content["pooled_plans"]["c"]
    assert record.content["runs"] == {"b": 48, "c": 48}


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


@pytest.mark.parametrize(
    ("event", "expected"), [("pull_request", "neutral"), ("merge_group", "action_required")]
)
def test_lack_of_power_is_neutral_only_where_the_policy_says_so(event: str, expected: str) -> None:
    project = make_gated_project(rubrics=rubrics(resolved={"min_effect": 0.05}))
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"), event=event)

    assert verdict(conclusion, rubric="resolved")["reasons"][0] == "UNDERPOWERED"
    assert conclusion.conclusion == expected


def test_policy_without_anything_that_blocks_is_no_success() -> None:
    harmless = {name: {"gate": "info"} for name in ("correctness", "latency_s", "resolved")}
    project = make_gated_project(rubrics=rubrics(**harmless))
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    assert conclusion.conclusion == "action_required"
    assert conclusion.content["data_reasons"] == ["NOTHING_BLOCKING"]


def test_rubric_that_only_warns_changes_nothing() -> None:
    project = make_gated_project(rubrics=rubrics(correctness={"gate": "warn"}))
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate", drop=5))

    row = verdict(conclusion, rubric="correctness")
    assert (row["verdict"], row["gates"]) == ("REGRESSION", False)
    assert conclusion.conclusion == "success"


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


def test_scenarios_that_the_baseline_had_are_named_when_they_go() -> None:
    project = make_gated_project()
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"), scenarios=SCENARIOS[:-1])

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["suite_changed"]["subjects"] == [
        "refunds-07 (removed, candidate, history)"
    ]


def test_scenarios_that_are_new_are_named_and_harmless() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=SCENARIOS[:-1])

    conclusion = make_conclusion(project, steady("candidate"))

    assert codes(conclusion)["suite_grew"]["effect"] == "note"
    assert verdict(conclusion, rubric="correctness")["n"] == {"b": 23, "c": 24, "pairs": 23}
    assert conclusion.conclusion == "success"


def test_release_is_compared_too_and_gates_alike() -> None:
    project = make_gated_project()
    make_baseline(project, steady("release"), kind=BaselineKind.RELEASE)
    make_baseline(project, steady("rolling", drop=0.4), sha="3" * 40)

    conclusion = make_conclusion(project, steady("candidate", drop=0.8))

    against = {r["comparison"]: r["verdict"] for r in verdicts(conclusion, rubric="correctness")}
    assert against == {"history": "PASS", "release": "REGRESSION"}
    assert conclusion.conclusion == "failure"


@pytest.mark.parametrize(("fault_gate", "expected"), [("info", "success"), ("block", "failure")])
def test_faulted_arm_is_compared_with_its_clean_twin(fault_gate: str, expected: str) -> None:
    project = make_gated_project(rubrics=rubrics(correctness={"fault_gate": fault_gate}))
    arms = [arm("candidate"), arm("candidate+faults", condition="degraded")]
    lanes = [
        lane(f"ordinary-{i}", c, arms=["candidate", "candidate+faults"])
        for i, c in enumerate(CATEGORIES)
    ]
    fields: Any = {"arms": arms, "lanes": lanes, "conditions": {"degraded": {"seed": 7}}}

    def worse_under_faults(key: RunKey) -> Told | None:
        return steady("x", drop=3 if key.arm == "candidate+faults" else 0)(key)

    base_arms = [{**a, "sha": BASE_SHA} for a in arms]
    if fault_gate == "info":
        make_baseline(project, worse_under_faults, **{**fields, "arms": base_arms})
    conclusion = make_conclusion(project, worse_under_faults, **fields)

    row = verdict(conclusion, rubric="correctness", comparison="fault")
    assert (row["arm"], row["verdict"]) == ("candidate+faults", "REGRESSION")
    assert row["gates"] == (fault_gate == "block")
    assert conclusion.conclusion == expected


def test_other_environment_is_not_comparable() -> None:
    project = make_gated_project()
    make_baseline(project)
    environment = {"tier": "containerized", "simulator": None}

    conclusion = make_conclusion(project, steady("x"), lane={"environment": environment})

    assert conclusion.conclusion == "action_required"
    assert "NOT_COMPARABLE" in conclusion.content["data_reasons"]


def test_isolation_that_nobody_proved_is_no_success() -> None:
    claims = dict.fromkeys(
        ["machine", "mcp_session", "credential", "pool", "seed", "canary"], "not_claimed"
    )
    project = make_gated_project(isolation={**claims, "world": "exclusive"})
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["isolation_unproven"]["class"] == "isolation"
    assert {r["resource"]: r["state"] for r in conclusion.content["isolation"]}["world"] == (
        "unproven"
    )


@pytest.mark.parametrize(
    ("world", "code", "expected"),
    [("own", None, "success"), ("shared", "isolation_violated", "failure")],
)
def test_lanes_that_share_a_world_fail(world: str, code: str | None, expected: str) -> None:
    claims = dict.fromkeys(
        ["machine", "mcp_session", "credential", "pool", "seed", "canary"], "not_claimed"
    )
    project = make_gated_project(isolation={**claims, "world": "exclusive"})
    make_baseline(project)
    plan = make_scored_plan(project)
    for name in lane_names(plan):
        attempt = make_attempt(plan, name)
        deliver(attempt, steady("candidate"))
        environment = make_environment("one" if world == "shared" else name)
        send_members(attempt, {"lane/environment.json": json.dumps(environment).encode()})
        seal_attempt(attempt)

    conclusion = concluded(plan)

    assert conclusion.conclusion == expected
    assert list(codes(conclusion)) == ([] if code is None else [code])
    if code is not None:
        assert (
            "world: ordinary-1 and ordinary-2 share a world" in codes(conclusion)[code]["subjects"]
        )


def test_conclude_again_on_the_same_inputs_returns_what_is_there() -> None:
    project = make_gated_project()
    first = make_conclusion(project, steady("candidate"))

    again = conclude(first.plan, at=NOW + timedelta(minutes=5))

    assert again == first
    assert Conclusion.objects.count() == 1


def test_new_conclusion_on_equal_evidence_shares_the_records() -> None:
    project = make_gated_project()
    make_baseline(project)
    first = make_conclusion(project, steady("candidate"))
    bump_inputs(first.plan)

    second = conclude(first.plan, at=NOW + timedelta(minutes=5))

    assert second is not None
    assert second != first
    assert set(second.records.all()) == set(first.records.all())
    assert newest_conclusions([first.plan]) == {first.plan_id: second}


def test_plan_keeps_the_baseline_that_it_first_chose() -> None:
    project = make_gated_project()
    old = make_baseline(project)
    first = make_conclusion(project, steady("candidate"))
    make_baseline(project, steady("newer"), sha="3" * 40)
    bump_inputs(first.plan)

    kept = conclude(first.plan, at=NOW)
    run_lanes(first.plan, steady("more evidence"), lanes=["ordinary-1"])
    chosen_anew = concluded(first.plan)

    assert kept is not None
    assert _baseline_of(kept) == _baseline_of(first) == old.plan.digest
    assert _baseline_of(chosen_anew) != old.plan.digest


def _baseline_of(conclusion: Conclusion) -> object:
    row = verdict(conclusion, rubric="correctness")
    return DecisionRecord.objects.get(digest=row["record"]).content["baseline_plan"]


def test_conclude_calls_what_goes_with_it_and_rolls_back_together() -> None:
    plan = make_scored_plan(make_gated_project())
    close_plan(plan, at=NOW)
    Conclusion.objects.filter(plan=plan).delete()
    bump_inputs(plan)

    def fail(conclusion: Conclusion) -> None:
        raise RuntimeError(conclusion.conclusion)

    with pytest.raises(RuntimeError, match="failure"):
        conclude(plan, at=NOW, also=fail)

    assert not Conclusion.objects.filter(plan=plan, inputs_version=plan.inputs_version + 1).exists()
