"""Registration: each rule refuses what it is for, in words that say how to mend it."""

from typing import Any

import pytest

from evalhub.protocol.faults import DocumentError
from evalhub.protocol.plan import Plan
from evalhub.protocol.refusals import BaseSuite, Refusal
from evalhub.protocol.registration import RULES, registration_refusals
from tests.evalhub.protocol.documents import (
    BASE_SHA,
    NOON,
    Json,
    arm,
    guard,
    lane,
    plan,
    plan_json,
    policy,
    policy_json,
    scenario,
    suite,
    suite_json,
)

ORDERS = lane("orders", ["orders"], [["lookup", "candidate", 1]])
REFUNDS = lane("refunds", ["refunds"], [["late", "candidate", 1], ["twice", "candidate", 1]])
BASELINE_ARM = arm("baseline:luna-6", sha=BASE_SHA)


def refusals(
    document: Plan,
    *,
    policy_fields: Json | None = None,
    suite_fields: Json | None = None,
    suite_digest: str = "sha256:" + "5" * 64,
) -> list[Refusal]:
    found = registration_refusals(
        document,
        policy=policy(**(policy_fields or {})),
        base=BaseSuite(suite_digest, suite(**suite_fields)) if suite_fields is not None else None,
        at=NOON,
    )
    for refusal in found:
        assert refusal.fix.strip()
        assert refusal.got
        assert refusal.expected
    return found


def codes(document: Plan, **fields: Any) -> list[str]:
    return [refusal.code for refusal in refusals(document, **fields)]


def test_sound_plan_is_not_refused() -> None:
    assert refusals(plan(), suite_fields={}) == []


def test_category_of_the_plan_without_a_lane() -> None:
    scenarios = [*plan_json()["scenarios"], scenario("look", "vision")]

    found = refusals(plan(scenarios=scenarios))

    assert [refusal.code for refusal in found] == ["category_without_lane", "scenario_without_run"]
    assert "vision" in found[0].fix


def test_category_of_the_base_suite_without_a_lane() -> None:
    scenarios = [*suite_json()["scenarios"], scenario("look", "vision")]

    assert codes(plan(), suite_fields={"scenarios": scenarios}) == ["category_without_lane"]


def test_category_that_is_excluded_with_a_reason_needs_no_lane() -> None:
    scenarios = [*plan_json()["scenarios"], scenario("look", "vision")]
    excluded = [{"category": "vision", "reason": "reads the screen"}]

    assert codes(plan(scenarios=scenarios, excluded=excluded)) == []


def test_run_key_with_two_owners() -> None:
    again = lane("again", ["orders"], [["lookup", "candidate", 1]])

    (refusal,) = refusals(plan(lanes=[ORDERS, REFUNDS, again]))

    assert refusal.code == "run_key_with_two_owners"
    assert refusal.got == "run key lookup/candidate/1 in orders and again"


def test_run_key_twice_in_one_lane() -> None:
    twice = lane("orders", ["orders"], [["lookup", "candidate", 1]] * 2)

    assert codes(plan(lanes=[twice, REFUNDS])) == ["run_key_with_two_owners"]


def test_category_with_two_owners_of_a_lane_map() -> None:
    more = lane("more", ["refunds"], [["late", "candidate", 2]])
    lanes = [ORDERS, REFUNDS, more]

    assert codes(plan(lanes=lanes, lane_map_digest="sha256:" + "0" * 64)) == [
        "category_with_two_owners"
    ]
    assert codes(plan(lanes=lanes)) == []


def test_cohesive_artifact_with_two_owners() -> None:
    lanes = [
        ORDERS,
        lane("late", ["refunds"], [["late", "candidate", 1]]),
        lane("twice", ["refunds"], [["twice", "candidate", 1]]),
    ]
    cohesive = {**plan_json()["suite"], "cohesive": ["prompt:refunds"]}

    assert codes(plan(lanes=lanes, suite=cohesive)) == ["artifact_with_two_owners"]
    assert codes(plan(lanes=lanes)) == []
    assert codes(plan(suite=cohesive)) == []


def test_baseline_lane_may_share_what_ordinary_lanes_may_not() -> None:
    cohesive = {**plan_json()["suite"], "cohesive": ["prompt:refunds"]}
    runs = [["late", "baseline:luna-6", 1], ["twice", "baseline:luna-6", 1]]
    baseline = lane("base", ["refunds"], runs, kind="baseline")

    document = plan(suite=cohesive, arms=[arm(), BASELINE_ARM], lanes=[ORDERS, REFUNDS, baseline])

    assert codes(document) == []


def test_run_key_of_an_unknown_scenario_or_arm() -> None:
    stray = lane("orders", ["orders"], [["lookup", "candidate", 1], ["ghost", "phantom", 1]])

    found = refusals(plan(lanes=[stray, REFUNDS]))

    assert [(r.code, r.pointer, r.got) for r in found] == [
        ("unknown_scenario", "/lanes/0/runs", "scenario 'ghost'"),
        ("unknown_arm", "/lanes/0/runs", "arm 'phantom'"),
    ]


def test_scenario_without_a_run() -> None:
    fewer = lane("refunds", ["refunds"], [["late", "candidate", 1]])

    (refusal,) = refusals(plan(lanes=[ORDERS, fewer]))

    assert (refusal.code, refusal.pointer) == ("scenario_without_run", "/scenarios/2")


def test_run_of_a_category_that_the_lane_does_not_declare() -> None:
    runs = [*REFUNDS["runs"], ["lookup", "candidate", 2]]

    assert codes(plan(lanes=[ORDERS, lane("refunds", ["refunds"], runs)])) == [
        "category_not_declared"
    ]


@pytest.mark.parametrize("name", ["plan.json", "state.json", "foreign.json", "any.json"])
def test_lane_with_the_name_of_a_document(name: str) -> None:
    lanes = [lane(name, ["orders"], ORDERS["runs"]), REFUNDS]

    assert codes(plan(lanes=lanes)) == ["lane_named_like_a_document"]
    assert codes(plan(lanes=[lane("plan.json-1", ["orders"], ORDERS["runs"]), REFUNDS])) == []


def test_empty_lane() -> None:
    assert codes(plan(lanes=[ORDERS, REFUNDS, lane("idle", ["orders"], [])])) == ["empty_lane"]


@pytest.mark.parametrize("kind", ["ordinary", "baseline"])
def test_more_lanes_than_the_limits(kind: str) -> None:
    limits = {"ordinary": 2, "baseline": 0, "max_parallel": 4}
    arms = [arm(), BASELINE_ARM]
    own = ["lookup", "candidate" if kind == "ordinary" else "baseline:luna-6", 2]
    more = lane("more", ["orders"], [own], kind=kind)

    (refusal,) = refusals(plan(lanes=[ORDERS, REFUNDS, more], limits=limits, arms=arms))

    assert (refusal.code, refusal.pointer) == ("too_many_lanes", f"/limits/{kind}")


def test_memory_mixed_with_others_and_memory_that_does_not_fit() -> None:
    with_memory = {**plan_json()["suite"], "memory_categories": ["refunds"]}
    mixed = lane("all", ["orders", "refunds"], [*ORDERS["runs"], *REFUNDS["runs"]], memory=True)

    assert codes(plan(suite=with_memory, lanes=[mixed])) == ["memory_mixed"]
    assert codes(plan(suite=with_memory)) == ["memory_mismatch"]
    assert codes(plan(lanes=[ORDERS, {**REFUNDS, "memory": True}])) == ["memory_mismatch"]
    assert codes(plan(suite=with_memory, lanes=[ORDERS, {**REFUNDS, "memory": True}])) == []


@pytest.mark.parametrize(
    ("guards", "code"),
    [
        ([], "guard_absent"),
        ([guard("another")], "guard_absent"),
        ([guard(result="failed")], "guard_failed"),
        ([guard(result="skipped")], "guard_failed"),
        ([guard(checked_at="2026-11-29T10:59:59Z")], "guard_stale"),
        ([guard(checked_at="2026-11-29T12:05:01Z")], "guard_stale"),
    ],
)
def test_guard_that_is_absent_failed_or_stale(guards: list[Json], code: str) -> None:
    assert codes(plan(guards=guards)) == [code]


@pytest.mark.parametrize("time", ["2026-11-29T11:00:00Z", "2026-11-29T12:05:00Z"])
def test_guard_within_its_time_passes(time: str) -> None:
    assert codes(plan(guards=[guard(checked_at=time)])) == []


def test_failed_guard_gives_its_own_fix_line() -> None:
    (refusal,) = refusals(plan(guards=[guard(result="failed", observed="down")]))

    assert refusal.fix == "evalhub simulator serve"
    assert "saw 'down'" in refusal.got


def test_tier_that_is_not_real_enough() -> None:
    emulated = {**ORDERS, "environment": {"tier": "llm_emulated"}}

    (refusal,) = refusals(plan(lanes=[emulated, REFUNDS]))

    assert (refusal.code, refusal.pointer) == ("tier_too_low", "/lanes/0/environment/tier")


def test_rubric_that_the_policy_does_not_know() -> None:
    assert codes(plan(rubrics=["resolved", "charm"])) == ["unknown_rubric"]


def test_blocking_rubric_that_the_plan_leaves_out() -> None:
    assert codes(plan(rubrics=["latency_s"])) == ["blocking_rubric_left_out"]


def test_arm_of_another_commit() -> None:
    (refusal,) = refusals(plan(arms=[arm(sha=BASE_SHA)]))

    assert (refusal.code, refusal.pointer) == ("arm_of_another_commit", "/arms/0/sha")


def test_condition_that_the_plan_does_not_define() -> None:
    faulted = [arm(condition="payments-degraded")]

    assert codes(plan(arms=faulted)) == ["unknown_condition"]
    assert codes(plan(arms=faulted, conditions={"payments-degraded": {"seed": 7}})) == []


def test_lane_of_two_commits() -> None:
    both = lane(
        "orders", ["orders"], [["lookup", "candidate", 1], ["lookup", "baseline:luna-6", 1]]
    )

    assert codes(plan(arms=[arm(), BASELINE_ARM], lanes=[both, REFUNDS])) == ["lane_of_two_commits"]


def test_judged_rubric_without_any_stage() -> None:
    assert codes(plan(stages=[])) == ["stage_without_fingerprint"]


def test_later_stages_may_be_left_to_the_nightly() -> None:
    assert policy_json()["rubrics"]["resolved"]["stages"] == ["check", "llm"]
    assert codes(plan()) == []


def test_ids_that_one_folder_cannot_tell_apart_or_hold() -> None:
    """Of one pair only the later is named; 200 characters of three bytes do not fit a path."""
    long_id = "件" * 200
    scenarios = [scenario("Late", "refunds"), scenario(long_id, "refunds")]
    runs = [["Late", "candidate", 1], [long_id, "candidate", 1]]

    found = refusals(
        plan(
            scenarios=[*plan_json()["scenarios"], *scenarios],
            lanes=[ORDERS, {**REFUNDS, "runs": [*REFUNDS["runs"], *runs]}],
        )
    )

    assert [refusal.code for refusal in found] == ["scenario_ids_alike", "scenario_id_too_long"]
    assert found[0].got == "'Late' beside 'late'"


def test_category_that_a_lane_declares_but_does_not_run() -> None:
    lanes = [{**ORDERS, "categories": ["orders", "vision"]}, REFUNDS]
    scenarios = [scenario("look", "vision"), *suite_json()["scenarios"]]

    found = codes(plan(lanes=lanes), suite_fields={"scenarios": scenarios})

    assert found == ["category_without_lane"]


def test_suite_that_is_not_what_its_digest_names() -> None:
    """A plan could otherwise switch memory off, or call a scenario by another's digest."""
    scenarios = [
        scenario("lookup", "orders"),
        {**scenario("late", "refunds", "prompt:refunds"), "digest": "sha256:" + "1" * 64},
        scenario("twice", "refunds"),
    ]
    named = {"scenarios": scenarios, "memory_categories": ["memory"]}

    found = refusals(plan(), suite_fields=named, suite_digest=plan_json()["suite"]["digest"])

    assert [(refusal.code, refusal.pointer) for refusal in found] == [
        ("suite_untrue", "/suite/memory_categories"),
        ("suite_untrue", "/scenarios/1/digest"),
        ("suite_untrue", "/scenarios/2/artifacts"),
    ]


def test_scenario_that_the_named_suite_does_not_have() -> None:
    found = refusals(
        plan(),
        suite_fields={
            "scenarios": [
                scenario("lookup", "orders"),
                scenario("late", "refunds", "prompt:refunds"),
            ]
        },
        suite_digest=plan_json()["suite"]["digest"],
    )

    assert [refusal.pointer for refusal in found] == ["/scenarios/2/id"]


@pytest.mark.parametrize("money", [{"pool": "judge-main"}, {"budget_microusd": 5}])
def test_pool_without_a_budget_and_budget_without_a_pool(money: Json) -> None:
    assert codes(plan(lanes=[{**ORDERS, **money}, REFUNDS])) == ["pool_without_budget"]


def test_second_guard_of_one_name_is_no_plan() -> None:
    """The later one could hide that the first has failed."""
    with pytest.raises(DocumentError, match="simulator_up occurs twice"):
        plan(guards=[guard(result="failed"), guard()])


def test_every_fault_is_told_at_once() -> None:
    document = plan(guards=[], stages=[], rubrics=["resolved", "charm"])

    assert codes(document) == ["guard_absent", "unknown_rubric", "stage_without_fingerprint"]


def test_each_rule_has_a_test_here() -> None:
    # Grows with RULES, so that a new rule is not forgotten.
    assert len(RULES) == 19
