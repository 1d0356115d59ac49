"""What plan, suite, policy and records refuse by themselves."""

import json
import unicodedata
from typing import Any

import pytest

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import TIERS, Event, Policy
from evalhub.protocol.records import JudgeLine, Result, Turn
from evalhub.protocol.suite import LaneMap, Suite
from tests.evalhub.protocol.documents import (
    DIGEST,
    Json,
    arm,
    plan,
    plan_json,
    policy,
    policy_json,
    scenario,
    suite_json,
)


def refused(model: Any, document: Json) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(model, json.dumps(document))
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "values", "name"),
    [
        ("arms", [arm(), arm()], "candidate"),
        ("scenarios", [scenario("a", "b"), scenario("a", "c")], "a"),
        ("lanes", [plan_json()["lanes"][0]] * 2, "orders"),
        ("rubrics", ["resolved", "resolved"], "resolved"),
        ("stages", plan_json()["stages"] * 2, "resolved/check"),
        ("excluded", [{"category": "vision", "reason": "x"}] * 2, "vision"),
    ],
)
def test_plan_names_each_thing_once(field: str, values: list[object], name: str) -> None:
    assert f"{field} without repetition; {name} occurs twice" in refused(
        Plan, plan_json(**{field: values})
    )


def test_lane_and_arm_are_found_by_name() -> None:
    document = plan()

    assert document.lane("refunds").run_keys[1].scenario == "twice"
    assert document.arm("candidate").model == "luna-6"
    for find in (document.lane, document.arm):
        with pytest.raises(KeyError):
            find("ghost")


@pytest.mark.parametrize(
    ("kind", "is_required"),
    [("ordinary", True), ("baseline", True), ("advisory", False), ("rejudge", False)],
)
def test_ordinary_and_baseline_lanes_are_required(kind: str, is_required: bool) -> None:  # noqa: FBT001 - a column of the table
    lanes = [{**lane, "kind": kind} for lane in plan_json()["lanes"]]

    assert {lane.is_required for lane in plan(lanes=lanes).lanes} == {is_required}


def test_scenario_ids_are_in_normal_form() -> None:
    decomposed = unicodedata.normalize("NFD", "caf\u00e9")

    assert "normal form C" in refused(Suite, suite_json(scenarios=[scenario(decomposed, "a")]))


def test_suite_and_lane_map_name_each_thing_once() -> None:
    assert "occurs twice" in refused(Suite, suite_json(scenarios=[scenario("a", "b")] * 2))
    lanes = [{"lane": "a", "categories": ["x"]}, {"lane": "a", "categories": ["y"]}]
    assert "occurs twice" in refused(LaneMap, {"lanes": lanes})
    sound = {"lanes": lanes[:1], "excluded": {"vision": "reads the screen"}}
    assert parse_document(LaneMap, json.dumps(sound)).excluded == sound["excluded"]


def rubric(**fields: Any) -> Json:
    return policy_json(rubrics={"r": {**policy_json()["rubrics"]["resolved"], **fields}})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"min_effect": None}, "direction and min_effect for a binary rubric"),
        ({"direction": None}, "direction and min_effect for a binary rubric"),
        ({"stages": []}, "stages for a rubric that is judged"),
        ({"stages": ["check", "check"]}, "each stage once"),
        ({"scale": [10, 0]}, "low below high"),
        ({"min_effect": 0}, "/rubrics/r/min_effect"),
        ({"gate": "maybe"}, "/rubrics/r/gate"),
    ],
)
def test_rubric_that_could_not_decide_is_refused(fields: Json, words: str) -> None:
    assert words in refused(Policy, rubric(**fields))


def test_undecided_has_a_meaning_for_every_event() -> None:
    events: dict[Event, str] = {
        "pull_request": "neutral",
        "merge_group": "action_required",
        "schedule": "action_required",
        "push": "action_required",
        "manual": "neutral",
        "import": "neutral",
    }
    rules = policy().inconclusive

    assert {event: rules.for_event(event) for event in events} == events
    assert TIERS[0] == "llm_emulated"


LINE: Json = {
    "call_id": "0192f0c4-0000-7000-8000-000000000000",
    "rubric": "resolved",
    "stage": "check",
    "fingerprint": DIGEST,
    "value": 1.0,
    "cost_microusd": None,
}


def test_judge_line_has_a_value_or_says_why_not() -> None:
    words = "a value, or null with an unscored_reason"

    assert words in refused(JudgeLine, {**LINE, "value": None})
    assert words in refused(JudgeLine, {**LINE, "unscored_reason": "budget"})
    line = parse_document(
        JudgeLine, json.dumps({**LINE, "value": None, "unscored_reason": "budget"})
    )
    assert line.value is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_of_ours_is_infinite(number: str) -> None:
    with pytest.raises(DocumentError, match="/scores/latency_s"):
        parse_document(Result, f'{{"outcome": "passed", "scores": {{"latency_s": {number}}}}}')


def test_what_lies_below_extra_is_the_senders_business() -> None:
    turn = parse_document(
        Turn, '{"turn": 1, "role": "user", "kind": "note", "extra": {"a": NaN, "b": [1e999]}}'
    )

    assert set(turn.extra) == {"a", "b"}


@pytest.mark.parametrize(
    "change", [{"turn": 0}, {"role": "robot"}, {"kind": "song"}, {"text": 1}, {"body": "x"}]
)
def test_turn_that_is_not_of_the_wire_is_refused(change: Json) -> None:
    document = {"turn": 1, "role": "user", "kind": "message", **change}

    assert refused(Turn, document).startswith(f"/{next(iter(change))} ")
