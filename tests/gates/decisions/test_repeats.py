"""Notes on what the numbers do not show by themselves: repeats, scenarios without a score."""

import pytest

from evalhub.protocol.plan import RunKey
from tests.gates.decisions.stories import altered
from tests.gates.factories import (
    Told,
    codes,
    concluded,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_lane_that_measured_in_several_attempts_is_named() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("first"))
    once = concluded(plan)
    for night in range(2):
        run_lanes(plan, steady(f"again {night}"), lanes=["ordinary-3"])

    again = concluded(plan)

    assert "remeasured" not in codes(once)
    note = codes(again)["remeasured"]
    assert (note["effect"], note["subjects"]) == ("note", ["ordinary-3: 3 attempts"])
    assert again.conclusion == "success"
    assert any("ordinary-3: 3 attempts" in line for line in again.content["sentences"])


def test_attempt_that_measured_nothing_is_no_repeat() -> None:
    project = make_gated_project()
    plan = make_scored_plan(project)
    broken = Told(judged={}, latency_s=None, outcome="infra_error")
    run_lanes(plan, lambda _: broken, lanes=["ordinary-1"])
    run_lanes(plan, steady("x"))

    assert "remeasured" not in codes(concluded(plan))


def test_scenario_that_ran_without_any_score_is_named() -> None:
    project = make_gated_project()
    make_baseline(project)

    def silent(key: RunKey, told: Told) -> Told:
        nothing: dict[str, float | None] = {**told.judged, "correctness": None}
        return told._replace(judged=nothing) if key.scenario == "refunds-00" else told

    conclusion = make_conclusion(project, altered(steady("candidate"), silent))

    note = codes(conclusion)["unscored"]
    assert (note["effect"], note["subjects"]) == ("note", ["refunds-00: correctness (candidate)"])


def test_scenario_with_one_score_and_rubric_without_any_are_not_named() -> None:
    project = make_gated_project()
    make_baseline(project)

    def silent(key: RunKey, told: Told) -> Told:
        judged: dict[str, float | None] = {**told.judged, "resolved": None}
        if (key.scenario, key.epoch) == ("refunds-00", 1):
            judged["correctness"] = None
        return told._replace(judged=judged)

    conclusion = make_conclusion(project, altered(steady("candidate"), silent))

    assert "unscored" not in codes(conclusion)
    assert "NOT_JUDGED" in conclusion.content["data_reasons"]


def test_verdict_without_a_baseline_does_not_name_one() -> None:
    lines = make_conclusion(make_gated_project(), steady("first")).content["sentences"]

    assert not any("compared with the adopted baseline" in line for line in lines)
    assert any(line.startswith("correctness") for line in lines)
