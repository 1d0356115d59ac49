"""What a plan is compared with, and what cannot be compared."""

from typing import Any

import pytest

from evalhub.protocol.plan import RunKey
from gates.verdicts.models import BaselineKind, DecisionRecord
from tests.gates.decisions.stories import altered, arm, lane
from tests.gates.factories import (
    CATEGORIES,
    OTHER_FINGERPRINT,
    SCENARIOS,
    Told,
    codes,
    concluded,
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
from tests.lanes.factories import BASE_SHA

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


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
