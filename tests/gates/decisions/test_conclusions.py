"""What a plan means, from evidence that came through the real intake."""

from datetime import timedelta

import pytest

from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from gates.decisions.queries import newest_conclusions
from gates.verdicts.models import DecisionRecord
from lanes.plans.models import Plan, PlanState
from lanes.plans.operations.lifecycle import bump_inputs, close_plan
from tests.gates.factories import (
    concluded,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    rubrics,
    run_lanes,
    steady,
    verdict,
)
from tests.lanes.factories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


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
    assert conclusion.title.count("on 24 scenarios, mostly in refunds") == 1
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
    bump_inputs(first.plan, at=NOW)

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
    bump_inputs(first.plan, at=NOW)

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
    bump_inputs(plan, at=NOW)

    def fail(conclusion: Conclusion) -> None:
        raise RuntimeError(conclusion.conclusion)

    with pytest.raises(RuntimeError, match="failure"):
        conclude(plan, at=NOW, also=fail)

    assert not Conclusion.objects.filter(plan=plan, inputs_version=plan.inputs_version + 1).exists()
