"""Why a plan is not registered. The same rules offline (`evalhub plan check`) and at the server.

Each rule looks at the whole plan and yields every fault it finds. What needs the database (is the
policy current, does the pool cover the plan) is the server's alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from evalhub.protocol.paths import encoded_component
from evalhub.protocol.plan import Plan, PlannedLane, RunKey
from evalhub.protocol.policy import TIERS, Policy
from evalhub.protocol.suite import Suite

# Leaves room for arm, epoch and file name within LONGEST_PATH.
_LONGEST_ENCODED_ID = 600
# Clocks of CI machines differ; a guard from further in the future than this was not checked.
_CLOCK_SKEW = timedelta(minutes=5)


class Refusal(NamedTuple):
    """One reason why a plan is not registered."""

    code: str
    pointer: str
    got: str
    expected: str
    fix: str


Rule = Callable[["Case"], Iterator[Refusal]]


class Case(NamedTuple):
    """What the rules look at. `suite` is the base branch's, None where there is none yet."""

    plan: Plan
    policy: Policy
    suite: Suite | None
    at: datetime


def registration_refusals(
    plan: Plan, *, policy: Policy, suite: Suite | None, at: datetime
) -> list[Refusal]:
    """Return every reason for which this plan cannot be registered; empty when it can."""
    case = Case(plan, policy, suite, at)
    return [refusal for rule in RULES for refusal in rule(case)]


def _orphaned_categories(case: Case) -> Iterator[Refusal]:
    plan = case.plan
    run_by = {category for lane in plan.lanes for category in lane.categories}
    excluded = {exclusion.category for exclusion in plan.excluded}
    known = {scenario.category for scenario in plan.scenarios}
    if case.suite is not None:
        known |= {scenario.category for scenario in case.suite.scenarios}
    for category in sorted(known - run_by - excluded):
        yield Refusal(
            "category_without_lane",
            "/lanes",
            f"no lane with category {category!r}",
            "every category of the suite in a lane, or excluded with a reason",
            f"Give {category!r} to a lane, or add it to the lane map's `excluded` with a reason.",
        )


def _shared_run_keys(case: Case) -> Iterator[Refusal]:
    owners: dict[RunKey, list[str]] = defaultdict(list)
    for lane in case.plan.lanes:
        for key in lane.run_keys:
            owners[key].append(lane.name)
    for key, names in owners.items():
        if len(names) > 1:
            yield Refusal(
                "run_key_with_two_owners",
                "/lanes",
                f"run key {key} in {' and '.join(names)}",
                "each run key in exactly one lane, once",
                "Remove it from all lanes but one.",
            )


def _shared_categories(case: Case) -> Iterator[Refusal]:
    if case.plan.lane_map_digest is None:
        return
    owners = _owners((c, lane) for lane in _ordinary(case.plan) for c in lane.categories)
    for category, names in owners.items():
        if len(names) > 1:
            yield Refusal(
                "category_with_two_owners",
                "/lanes",
                f"category {category!r} in {' and '.join(names)}",
                "each category in one ordinary lane of the lane map",
                "Correct the lane map.",
            )


def _split_artifacts(case: Case) -> Iterator[Refusal]:
    cohesive = set(case.plan.suite.cohesive)
    artifacts = {
        scenario.id: cohesive & set(scenario.artifacts) for scenario in case.plan.scenarios
    }
    owners = _owners(
        (artifact, lane)
        for lane in _ordinary(case.plan)
        for scenario in {key.scenario for key in lane.run_keys}
        for artifact in artifacts.get(scenario, ())
    )
    for artifact, names in owners.items():
        if len(names) > 1:
            yield Refusal(
                "artifact_with_two_owners",
                "/lanes",
                f"artifact {artifact!r} exercised in {' and '.join(names)}",
                "each cohesive artifact in one ordinary lane",
                "Put all scenarios of the artifact into one lane, or take it off `cohesive`.",
            )


def _unknown_scenarios(case: Case) -> Iterator[Refusal]:
    known = {scenario.id for scenario in case.plan.scenarios}
    arms = {arm.name for arm in case.plan.arms}
    for i, lane in enumerate(case.plan.lanes):
        for scenario in sorted({key.scenario for key in lane.run_keys} - known):
            yield Refusal(
                "unknown_scenario",
                f"/lanes/{i}/runs",
                f"scenario {scenario!r}",
                "scenarios that the plan lists",
                "List the scenario in /scenarios with its digest, or remove the run key.",
            )
        for arm in sorted({key.arm for key in lane.run_keys} - arms):
            yield Refusal(
                "unknown_arm",
                f"/lanes/{i}/runs",
                f"arm {arm!r}",
                "arms that the plan lists",
                "List the arm in /arms, or remove the run key.",
            )


def _unplanned_scenarios(case: Case) -> Iterator[Refusal]:
    planned = {key.scenario for lane in case.plan.lanes for key in lane.run_keys}
    excluded = {exclusion.category for exclusion in case.plan.excluded}
    for i, scenario in enumerate(case.plan.scenarios):
        if scenario.id not in planned and scenario.category not in excluded:
            yield Refusal(
                "scenario_without_run",
                f"/scenarios/{i}",
                f"scenario {scenario.id!r} in no lane's runs",
                "at least one run key for each listed scenario",
                "Plan a run for it, or exclude its category with a reason.",
            )


def _foreign_categories(case: Case) -> Iterator[Refusal]:
    category_of = {scenario.id: scenario.category for scenario in case.plan.scenarios}
    for i, lane in enumerate(case.plan.lanes):
        run = {category_of[k.scenario] for k in lane.run_keys if k.scenario in category_of}
        for category in sorted(run - set(lane.categories)):
            yield Refusal(
                "category_not_declared",
                f"/lanes/{i}/categories",
                f"runs of category {category!r}",
                "every category that the lane runs",
                f"Add {category!r} to the lane's categories, or move its run keys.",
            )


def _empty_lanes(case: Case) -> Iterator[Refusal]:
    for i, lane in enumerate(case.plan.lanes):
        if not lane.runs:
            yield Refusal(
                "empty_lane",
                f"/lanes/{i}/runs",
                "no run keys",
                "at least one run key",
                f"Give lane {lane.name!r} something to run, or remove it.",
            )


def _lanes_beyond_limits(case: Case) -> Iterator[Refusal]:
    limits = case.plan.limits
    for kind, limit in (("ordinary", limits.ordinary), ("baseline", limits.baseline)):
        count = sum(lane.kind == kind for lane in case.plan.lanes)
        if count > limit:
            yield Refusal(
                "too_many_lanes",
                f"/limits/{kind}",
                f"{count} {kind} lanes",
                f"at most {limit}",
                "Raise the limit, or plan fewer lanes.",
            )


def _memory(case: Case) -> Iterator[Refusal]:
    needs = set(case.plan.suite.memory_categories)
    for i, lane in enumerate(case.plan.lanes):
        with_memory = sorted(set(lane.categories) & needs)
        without = sorted(set(lane.categories) - needs)
        if with_memory and without:
            yield Refusal(
                "memory_mixed",
                f"/lanes/{i}/categories",
                f"{', '.join(with_memory)} together with {', '.join(without)}",
                "categories that need memory in lanes of their own",
                "Give the memory categories a lane to themselves.",
            )
        elif lane.memory != bool(with_memory):
            yield Refusal(
                "memory_mismatch",
                f"/lanes/{i}/memory",
                str(lane.memory).lower(),
                str(bool(with_memory)).lower(),
                f"Set the memory of lane {lane.name!r} as its categories need it.",
            )


def _guards(case: Case) -> Iterator[Refusal]:
    rules = case.policy.guards
    guards = {guard.name: (i, guard) for i, guard in enumerate(case.plan.guards)}
    for name in rules.required:
        if name not in guards:
            yield Refusal(
                "guard_absent",
                "/guards",
                f"no guard {name!r}",
                "every guard that the policy requires",
                f"Run the guard {name!r} before the plan is registered.",
            )
            continue
        i, guard = guards[name]
        age = case.at - guard.checked_at
        if guard.result != "ok":
            yield Refusal(
                "guard_failed",
                f"/guards/{i}/result",
                f"{guard.result} ({name}: expected {guard.expected!r}, saw {guard.observed!r})",
                "ok",
                guard.fix,
            )
        elif not -_CLOCK_SKEW <= age <= timedelta(minutes=rules.max_age_minutes):
            yield Refusal(
                "guard_stale",
                f"/guards/{i}/checked_at",
                f"{guard.checked_at:%Y-%m-%dT%H:%M:%SZ} ({name})",
                f"within the last {rules.max_age_minutes} minutes",
                f"Run the guard {name!r} again and build the plan anew.",
            )


def _tiers(case: Case) -> Iterator[Refusal]:
    least = case.policy.environment.minimum_tier
    for i, lane in enumerate(case.plan.lanes):
        if TIERS.index(lane.environment.tier) < TIERS.index(least):
            yield Refusal(
                "tier_too_low",
                f"/lanes/{i}/environment/tier",
                lane.environment.tier,
                f"{least} or more real",
                f"Run lane {lane.name!r} in an environment of tier {least}.",
            )


def _rubrics(case: Case) -> Iterator[Refusal]:
    for i, name in enumerate(case.plan.rubrics):
        if name not in case.policy.rubrics:
            yield Refusal(
                "unknown_rubric",
                f"/rubrics/{i}",
                repr(name),
                f"one of {', '.join(sorted(case.policy.rubrics))}",
                "Name a rubric of the project's current policy, or add it there first.",
            )
    gating = {name for name, rubric in case.policy.rubrics.items() if rubric.gate == "block"}
    for name in sorted(gating - set(case.plan.rubrics)):
        yield Refusal(
            "blocking_rubric_left_out",
            "/rubrics",
            f"no {name!r}",
            "every rubric that blocks",
            f"Add {name!r} to the plan's rubrics; a plan cannot leave out what the policy gates.",
        )


def _arms(case: Case) -> Iterator[Refusal]:
    source = case.plan.source
    for i, arm in enumerate(case.plan.arms):
        wanted = source.base_sha if arm.is_baseline else source.tested_sha
        if arm.sha != wanted:
            yield Refusal(
                "arm_of_another_commit",
                f"/arms/{i}/sha",
                str(arm.sha),
                f"{wanted} ({'base_sha' if arm.is_baseline else 'tested_sha'})",
                "Set the arm's sha to the commit that it runs.",
            )
        if arm.condition != "clean" and arm.condition not in case.plan.conditions:
            yield Refusal(
                "unknown_condition",
                f"/arms/{i}/condition",
                repr(arm.condition),
                "clean, or a condition that the plan defines",
                "Define the fault profile in /conditions.",
            )
    shas = {arm.name: arm.sha for arm in case.plan.arms}
    for i, lane in enumerate(case.plan.lanes):
        if len({shas[key.arm] for key in lane.run_keys if key.arm in shas}) > 1:
            yield Refusal(
                "lane_of_two_commits",
                f"/lanes/{i}/runs",
                "arms of more than one sha",
                "arms of one sha in a lane",
                "Run the baseline's arms in a lane of kind baseline.",
            )


def _stages(case: Case) -> Iterator[Refusal]:
    named = {(reference.rubric, reference.stage) for reference in case.plan.stages}
    judged = [
        name
        for name in case.plan.rubrics
        if name in case.policy.rubrics and case.policy.rubrics[name].source == "judge"
    ]
    for name in judged:
        if not any((name, stage) in named for stage in case.policy.rubrics[name].stages):
            yield Refusal(
                "stage_without_fingerprint",
                "/stages",
                f"no stage of rubric {name!r}",
                "the fingerprint of each stage that will judge it",
                "Name rubric, stage and fingerprint of every judge that the lanes will use.",
            )


def _unusable_ids(case: Case) -> Iterator[Refusal]:
    folded: dict[str, str] = {}
    for i, scenario in enumerate(case.plan.scenarios):
        twin = folded.setdefault(scenario.id.casefold(), scenario.id)
        if twin != scenario.id:
            yield Refusal(
                "scenario_ids_alike",
                f"/scenarios/{i}/id",
                f"{scenario.id!r} beside {twin!r}",
                "ids that differ in more than upper and lower case",
                "Rename one: on some file systems both would be one folder.",
            )
        length = len(encoded_component(scenario.id))
        if length > _LONGEST_ENCODED_ID:
            yield Refusal(
                "scenario_id_too_long",
                f"/scenarios/{i}/id",
                f"{length} characters once percent-encoded",
                f"at most {_LONGEST_ENCODED_ID}",
                "Shorten the id: it names a folder in which evidence lies.",
            )


RULES: tuple[Rule, ...] = (
    _orphaned_categories,
    _shared_run_keys,
    _shared_categories,
    _split_artifacts,
    _unknown_scenarios,
    _unplanned_scenarios,
    _foreign_categories,
    _empty_lanes,
    _lanes_beyond_limits,
    _memory,
    _guards,
    _tiers,
    _rubrics,
    _arms,
    _stages,
    _unusable_ids,
)


def _ordinary(plan: Plan) -> list[PlannedLane]:
    return [lane for lane in plan.lanes if lane.kind == "ordinary"]


def _owners(pairs: Iterable[tuple[str, PlannedLane]]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = defaultdict(list)
    for name, lane in pairs:
        if lane.name not in owners[name]:
            owners[name].append(lane.name)
    return dict(sorted(owners.items()))
