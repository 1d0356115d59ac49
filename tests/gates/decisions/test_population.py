"""A pull request writes its own plan: what it drops or redefines against the base is never unseen."""

from collections.abc import Sequence
from typing import Any

import pytest

from gates.verdicts.queries.evaluation import evaluate
from gates.verdicts.queries.findings import Effect, Finding
from lanes.plans.models import Plan
from lanes.projects.models import Project
from tests.gates.decisions.stories import arm, lane
from tests.gates.factories import (
    CATEGORIES,
    OTHER_FINGERPRINT,
    SCENARIOS,
    STAGES,
    codes,
    concluded,
    make_baseline,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import BASE_SHA, make_suite, scenario_document

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

Json = dict[str, Any]


def _concurrent(
    project: Project, scenarios: Sequence[tuple[str, str]] = tuple(SCENARIOS), **fields: Any
) -> Plan:
    """Register a plan whose baseline lanes run what its ordinary lanes run."""
    kept = {scenario for scenario, _ in scenarios}
    categories = [c for c in CATEGORIES if any(category == c for _, category in scenarios)]
    lanes = [lane(f"ordinary-{c}", c) for c in categories] + [
        lane(f"baseline-{c}", c, kind="baseline", arms=["baseline:luna-6"]) for c in categories
    ]
    for one in lanes:
        one["runs"] = [run for run in one["runs"] if run[0] in kept]
    return make_scored_plan(
        project,
        **{
            "scenarios": scenarios,
            "lanes": lanes,
            "arms": [arm("candidate"), arm("baseline:luna-6", sha=BASE_SHA)],
            "limits": {"ordinary": 3, "baseline": 3, "max_parallel": 6},
            **fields,
        },
    )


def _found(plan: Plan, code: str) -> Finding | None:
    return next((f for f in evaluate(plan).findings if f.code == code), None)


def _tagged(scenario: str, **fields: Any) -> list[Json]:
    """Return the scenarios with fields of one of them changed."""
    listed = [scenario_document(*one) for one in SCENARIOS]
    return [{**one, **fields} if one["id"] == scenario else one for one in listed]


def test_concurrent_plan_that_leaves_bad_scenarios_out_is_no_success() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)
    plan = _concurrent(project, SCENARIOS[:-2])
    run_lanes(plan, steady("candidate"))

    conclusion = concluded(plan)

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["suite_changed"]["subjects"] == [
        "refunds-06: removed",
        "refunds-07: removed",
    ]
    assert "2 scenarios are gone or changed" in conclusion.title


def test_concurrent_plan_of_the_whole_suite_is_a_success() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)
    make_baseline(project)
    plan = _concurrent(project)
    run_lanes(plan, steady("candidate"))

    conclusion = concluded(plan)

    assert (conclusion.conclusion, codes(conclusion)) == ("success", {})


def test_concurrent_plan_is_held_against_the_adopted_baseline_without_a_suite() -> None:
    project = make_gated_project()
    make_baseline(project)

    found = _found(_concurrent(project, SCENARIOS[:-1]), "suite_changed")

    assert found is not None
    assert found.effect is Effect.ACTION_REQUIRED
    assert found.subjects == ("refunds-07 (removed, candidate, history)",)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tags": ["advisory"]}, "tags"),
        ({"digest": OTHER_FINGERPRINT}, "digest"),
        ({"category": "orders"}, "category"),
    ],
)
def test_redefined_scenario_is_named_with_what_changed(change: Json, word: str) -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)

    def redefine(document: Json) -> None:
        document["scenarios"] = _tagged("refunds-03", **change)
        # A plan that names the base suite's digest must list what that lists.
        document["suite"]["digest"] = OTHER_FINGERPRINT
        for planned in document["lanes"]:
            planned["categories"] = list(CATEGORIES)

    found = _found(_concurrent(project, edit=redefine), "suite_changed")

    assert found is not None
    assert found.subjects == (f"refunds-03: {word}",)


def test_newly_excluded_category_is_named_by_scenario() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)
    make_baseline(project)
    excluded = [{"category": "refunds", "reason": "flaky"}]

    found = _found(_concurrent(project, SCENARIOS[:16], excluded=excluded), "suite_changed")

    assert found is not None
    assert found.subjects == tuple(f"refunds-{i:02d}: excluded" for i in range(8))


def test_category_that_the_baseline_excluded_too_is_no_news() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)
    excluded = [{"category": "refunds", "reason": "needs a card reader"}]
    make_baseline(project, scenarios=SCENARIOS[:16], excluded=excluded)

    plan = _concurrent(project, SCENARIOS[:16], excluded=excluded)

    assert _found(plan, "suite_changed") is None


def test_scenario_that_only_an_advisory_lane_runs_is_named() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS)

    def demote(document: Json) -> None:
        document["lanes"][2]["kind"] = "advisory"

    found = _found(make_scored_plan(project, edit=demote), "suite_changed")

    assert found is not None
    assert found.subjects[0] == "refunds-00: in no required lane"
    assert len(found.subjects) == 8


def test_scenario_that_the_base_suite_lacks_is_a_note() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS[:-1])

    plan = _concurrent(project)

    found = _found(plan, "suite_grew")
    assert found is not None
    assert (found.effect, found.subjects) == (Effect.NOTE, ("refunds-07: new",))
    assert _found(plan, "suite_changed") is None


def test_suite_of_another_name_says_nothing() -> None:
    project = make_gated_project()
    make_suite(project, scenarios=SCENARIOS, name="billing")

    assert _found(_concurrent(project, SCENARIOS[:-1]), "suite_changed") is None


_FAULTED = [arm("candidate"), arm("candidate+faults", condition="degraded")]


def _faulted(**fields: Any) -> Json:
    lanes = [lane(f"ordinary-{c}", c, arms=[one["name"] for one in _FAULTED]) for c in CATEGORIES]
    rules = {"seed": 7, "rules": [{"id": "rate-limit"}]}
    return {"arms": _FAULTED, "lanes": lanes, "conditions": {"degraded": rules}, **fields}


def test_arm_of_the_adopted_baseline_that_is_gone_is_named() -> None:
    project = make_gated_project()
    arms = [{**one, "sha": BASE_SHA} for one in _FAULTED]
    make_baseline(project, **_faulted(arms=arms))

    dropped = _found(make_scored_plan(project), "arms_changed")

    assert dropped is not None
    assert dropped.effect is Effect.ACTION_REQUIRED
    assert dropped.subjects == ("candidate+faults (support-agent, luna-6, degraded): removed",)
    assert _found(make_scored_plan(project, **_faulted()), "arms_changed") is None


def test_condition_that_means_something_else_is_named() -> None:
    project = make_gated_project()
    arms = [{**one, "sha": BASE_SHA} for one in _FAULTED]
    make_baseline(project, **_faulted(arms=arms))
    emptied = {"degraded": {"seed": 7, "rules": []}}

    found = _found(make_scored_plan(project, **_faulted(conditions=emptied)), "arms_changed")

    assert found is not None
    assert found.subjects == ("degraded: condition changed",)


def test_concurrent_plan_that_names_its_own_judge_is_no_success() -> None:
    project = make_gated_project()
    make_baseline(project)
    stages = [{**STAGES[0], "fingerprint": OTHER_FINGERPRINT}, STAGES[1]]
    added = [*STAGES, {"rubric": "correctness", "stage": "check", "fingerprint": OTHER_FINGERPRINT}]

    replaced = _found(_concurrent(project, stages=stages), "judge_replaced")
    new = _found(_concurrent(project, stages=added), "judge_replaced")

    assert replaced is not None
    assert new is not None
    assert replaced.effect is Effect.ACTION_REQUIRED
    assert replaced.subjects == ("correctness/llm",)
    assert new.subjects == ("correctness/check",)
    assert _found(_concurrent(project), "judge_replaced") is None


def test_new_judge_can_be_adopted_with_its_plan() -> None:
    project = make_gated_project()
    make_baseline(project)
    stages = [{**one, "fingerprint": OTHER_FINGERPRINT} for one in STAGES]
    plan = _concurrent(project, stages=stages)
    run_lanes(plan, lambda key: steady("x")(key)._replace(fingerprint=OTHER_FINGERPRINT))  # type: ignore[union-attr]

    conclusion = concluded(plan)

    assert conclusion.conclusion == "action_required"
    assert set(codes(conclusion)) == {"judge_replaced"}
    assert evaluate(plan).is_sound
