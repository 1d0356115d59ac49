"""Rules of registration: guards, environment, memory, judges and money are what the policy asks for."""

from collections.abc import Iterator
from datetime import timedelta

from evalhub.protocol.policy import TIERS
from evalhub.protocol.refusals import Case, Refusal

# Clocks of CI machines differ; a guard from further in the future than this was not checked.
_CLOCK_SKEW = timedelta(minutes=5)


def memory(case: Case) -> Iterator[Refusal]:
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


def guards(case: Case) -> Iterator[Refusal]:
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


def tiers(case: Case) -> Iterator[Refusal]:
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


def rubrics(case: Case) -> Iterator[Refusal]:
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


def arms(case: Case) -> Iterator[Refusal]:
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


def stages(case: Case) -> Iterator[Refusal]:
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


def pools(case: Case) -> Iterator[Refusal]:
    for i, lane in enumerate(case.plan.lanes):
        if (lane.pool is None) != (lane.budget_microusd is None):
            yield Refusal(
                "pool_without_budget",
                f"/lanes/{i}/budget_microusd",
                f"pool {lane.pool!r} with a budget of {lane.budget_microusd}",
                "a pool with a budget, or neither",
                "Give the lane a hard share of its pool, or plan it without judge money.",
            )
