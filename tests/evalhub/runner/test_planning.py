"""`plan build`: which lane runs what, and why a plan is not made."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.plan import Plan
from evalhub.protocol.suite import SuiteScenario
from evalhub.runner import clock
from evalhub.runner.allocation import Unit, heaviest_first
from evalhub.runner.errors import InputError
from evalhub.runner.planning import ArmChoice, PlanRefusedError, build_plan
from tests.evalhub.runner.documents import (
    digest_of,
    make_lane_map,
    make_plan,
    make_policy,
    make_request,
    make_scenario,
    make_suite,
)

BASELINE = ArmChoice("baseline:luna-6", "support-agent", "luna-6")
CANDIDATE = ArmChoice("candidate", "support-agent", "luna-6")


def scenarios_of(plan: Plan) -> dict[str, list[str]]:
    return {lane.name: sorted({key.scenario for key in lane.run_keys}) for lane in plan.lanes}


def test_build_gives_memory_a_lane_of_its_own() -> None:
    suite = make_suite(
        *(make_scenario(f"r{i}") for i in range(6)),
        make_scenario("m1", category="memory"),
        make_scenario("m2", category="memory"),
        memory_categories=["memory"],
    )

    plan = make_plan(suite=suite, lanes=4, epochs=3).model

    assert scenarios_of(plan)["memory-1"] == ["m1", "m2"]
    assert [(lane.name, lane.memory) for lane in plan.lanes] == [
        ("memory-1", True),
        ("ordinary-1", False),
        ("ordinary-2", False),
        ("ordinary-3", False),
    ]
    assert [len(lane.runs) for lane in plan.lanes] == [6, 6, 6, 6]


def test_build_gives_the_heaviest_scenario_first() -> None:
    suite = make_suite(
        make_scenario("long", weight_minutes=10.0),
        *(make_scenario(f"short{i}", weight_minutes=2.0) for i in range(5)),
    )

    plan = make_plan(suite=suite, lanes=2).model

    assert scenarios_of(plan)["ordinary-1"] == ["long"]
    assert [lane.weight_minutes for lane in plan.lanes] == [10.0, 10.0]


def test_build_keeps_a_cohesive_artifact_in_one_lane() -> None:
    chained = [
        make_scenario("a", artifacts=["prompt:x"]),
        make_scenario("b", artifacts=["prompt:x", "prompt:y"]),
        make_scenario("c", artifacts=["prompt:y"]),
        make_scenario("d", artifacts=["prompt:free"]),
        make_scenario("e", artifacts=["prompt:free"]),
    ]
    suite = make_suite(*chained, cohesive=["prompt:x", "prompt:y"])

    plan = make_plan(suite=suite, lanes=3).model

    assert sorted(scenarios_of(plan).values()) == [["a", "b", "c"], ["d"], ["e"]]


def test_build_is_the_same_whatever_the_order_of_the_input() -> None:
    scenarios = [make_scenario(f"s{i}", weight_minutes=1.0 + i % 3) for i in range(9)]
    arms = [CANDIDATE, ArmChoice("candidate-b", "support-agent", "sol-2")]

    forward = make_plan(suite=make_suite(*scenarios), arms=arms, lanes=3)
    suite = forward.model.suite
    again = build_plan(
        make_request(suite=make_suite(*scenarios), arms=arms[::-1], lanes=3), at=clock.now()
    )

    assert again.digest == forward.digest
    assert suite.digest == make_suite(*scenarios).digest
    # The suite's own order is part of its digest, but the lanes do not depend on it.
    turned = make_plan(suite=make_suite(*scenarios[::-1]), arms=arms, lanes=3).model
    assert turned.lanes == forward.model.lanes
    assert turned.scenarios == forward.model.scenarios


def test_build_runs_baseline_arms_in_lanes_of_their_commit() -> None:
    suite = make_suite(
        make_scenario("r"), make_scenario("m", category="memory"), memory_categories=["memory"]
    )
    source = {"event": "push", "tested_sha": "a" * 40, "base_sha": "b" * 40, "head_sha": "a" * 40}

    plan = make_plan(suite=suite, arms=[CANDIDATE, BASELINE], source=source, lanes=2).model

    kinds = {lane.name: (lane.kind, lane.memory) for lane in plan.lanes}
    assert kinds == {
        "baseline-1": ("baseline", False),
        "baseline-memory-1": ("baseline", True),
        "memory-1": ("ordinary", True),
        "ordinary-1": ("ordinary", False),
    }
    assert {arm.name: arm.sha for arm in plan.arms} == {
        "baseline:luna-6": "b" * 40,
        "candidate": "a" * 40,
    }


def test_build_takes_lanes_and_exclusions_from_a_lane_map() -> None:
    suite = make_suite(make_scenario("r"), make_scenario("v", category="vision"))
    lane_map = make_lane_map(
        lanes=[{"lane": "money", "categories": ["refunds"]}],
        excluded={"vision": "reads the screen"},
    )

    built = build_plan(make_request(suite=suite, lane_map=lane_map), at=clock.now())

    assert built.plan.lane_map_digest == lane_map.digest
    assert scenarios_of(built.plan) == {"money": ["r"]}
    assert built.notes[0] == "Category vision is excluded: reads the screen"
    assert [s.id for s in built.plan.scenarios] == ["r", "v"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"arms": []}, "--arm was absent"),
        ({"arms": [BASELINE]}, "at least one arm to be judged"),
        ({"excluded": {"vission": "?"}}, "expected one of refunds"),
        (
            {"lane_map": make_lane_map(lanes=[{"lane": "x", "categories": ["vision"]}])},
            "the suite has no scenario of it",
        ),
        (
            {
                "lane_map": make_lane_map(
                    lanes=[{"lane": "x", "categories": ["refunds"]}], excluded={"refunds": "no"}
                )
            },
            "is excluded and given to lane 'x'",
        ),
        ({"rubrics": ["resolvd"]}, "blocking_rubric_left_out"),
        ({"source": {"event": "manual", "head_sha": "short"}}, "/source/head_sha"),
        ({"policy": make_policy(guards={"required": ["judge_alive"]})}, "guard_absent"),
        ({"policy": make_policy(environment={"minimum_tier": "live"})}, "tier_too_low"),
    ],
)
def test_build_refuses_in_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build_plan(make_request(**fields), at=clock.now())


def test_build_names_every_refusal_not_only_the_first() -> None:
    policy = make_policy(
        guards={"required": ["judge_alive", "simulator_up"]}, environment={"minimum_tier": "live"}
    )

    with pytest.raises(PlanRefusedError) as caught:
        build_plan(make_request(policy=policy), at=clock.now())

    assert str(caught.value).count("\n") == 3


def test_build_refuses_one_lane_for_memory_and_others() -> None:
    suite = make_suite(
        make_scenario("r"), make_scenario("m", category="memory"), memory_categories=["memory"]
    )

    with pytest.raises(InputError, match="expected at least 2"):
        build_plan(make_request(suite=suite, lanes=1), at=clock.now())


def test_build_refuses_an_artifact_that_needs_memory_and_must_not_have_it() -> None:
    suite = make_suite(
        make_scenario("r", artifacts=["prompt:x"]),
        make_scenario("m", category="memory", artifacts=["prompt:x"]),
        memory_categories=["memory"],
        cohesive=["prompt:x"],
    )

    with pytest.raises(InputError, match="share a cohesive artifact"):
        build_plan(make_request(suite=suite, lanes=2), at=clock.now())


def test_build_says_that_fewer_lanes_are_enough() -> None:
    built = build_plan(make_request(lanes=3), at=clock.now())

    assert built.notes[0].startswith("1 of the 3 lanes")


TAIL = {"kind": "tail", "gate": "block", "from": "result"}
RESOLVED = make_policy().document["rubrics"]["resolved"]


def notes_of(*, scenarios: int, epochs: int, **policy: Any) -> list[str]:
    suite = make_suite(*(make_scenario(f"s{i}") for i in range(scenarios)))
    rules = make_policy(rubrics={"resolved": RESOLVED, "seconds": TAIL}, **policy)
    request = make_request(
        suite=suite, policy=rules, epochs=epochs, source={"event": "manual", "head_sha": "a" * 40}
    )
    return build_plan(request, at=clock.now()).notes


def test_build_says_which_rubrics_can_never_pass_and_why() -> None:
    few, short = notes_of(scenarios=3, epochs=5)

    assert few.startswith("The plan runs 3 scenarios; a paired comparison takes at least 5")
    assert "so resolved can never pass" in few
    assert short.startswith("The plan gives an arm only 15 runs; a tail takes at least 20")
    assert "so seconds can never pass" in short


def test_build_is_silent_where_each_rubric_can_pass() -> None:
    assert notes_of(scenarios=5, epochs=4) == []
    assert notes_of(scenarios=4, epochs=5, design="unpaired") == []


def test_plan_digest_is_over_the_document_as_written() -> None:
    built = build_plan(make_request(), at=clock.now())

    assert document_digest(json.loads(json.dumps(built.document, indent=1))) == built.digest


@given(weights=st.lists(st.floats(0.1, 100), min_size=1, max_size=40), lanes=st.integers(1, 8))
def test_heaviest_first_stays_within_the_bound_of_list_scheduling(
    weights: list[float], lanes: int
) -> None:
    units = [
        Unit(w, (SuiteScenario(id=f"s{i:02}", category="c", digest=digest_of(i)),))
        for i, w in enumerate(weights)
    ]

    shares = heaviest_first(units, lanes=lanes)

    heaviest = max(sum(unit.weight_minutes for unit in share) for share in shares)
    # Graham (1966): the lane that ends last was the lightest when it took its last unit.
    assert heaviest <= sum(weights) / lanes + (1 - 1 / lanes) * max(weights) + 1e-6
    assert all(shares)
    assert sorted(u.scenarios[0].id for share in shares for u in share) == sorted(
        unit.scenarios[0].id for unit in units
    )
