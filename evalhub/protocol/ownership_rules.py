"""Rules of registration: every run key has one owner, and nothing of the suite is left without one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from evalhub.protocol.plan import Plan, PlannedLane, RunKey
from evalhub.protocol.refusals import Case, Refusal

_DOCUMENT = ".json"


def orphaned_categories(case: Case) -> Iterator[Refusal]:
    plan = case.plan
    # By the runs themselves: a lane may declare a category and run nothing of it.
    category_of = {scenario.id: scenario.category for scenario in plan.scenarios}
    run_by = {category_of.get(key.scenario) for lane in plan.lanes for key in lane.run_keys}
    excluded = {exclusion.category for exclusion in plan.excluded}
    known = {scenario.category for scenario in plan.scenarios}
    if case.base is not None:
        known |= {scenario.category for scenario in case.base.suite.scenarios}
    for category in sorted(known - run_by - excluded):
        yield Refusal(
            "category_without_lane",
            "/lanes",
            f"no lane with runs of category {category!r}",
            "every category of the suite in a lane, or excluded with a reason",
            f"Give {category!r} to a lane, or add it to the lane map's `excluded` with a reason.",
        )


def shared_run_keys(case: Case) -> Iterator[Refusal]:
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


def shared_categories(case: Case) -> Iterator[Refusal]:
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


def split_artifacts(case: Case) -> Iterator[Refusal]:
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


def unknown_scenarios(case: Case) -> Iterator[Refusal]:
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


def unplanned_scenarios(case: Case) -> Iterator[Refusal]:
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


def foreign_categories(case: Case) -> Iterator[Refusal]:
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


def empty_lanes(case: Case) -> Iterator[Refusal]:
    for i, lane in enumerate(case.plan.lanes):
        if not lane.runs:
            yield Refusal(
                "empty_lane",
                f"/lanes/{i}/runs",
                "no run keys",
                "at least one run key",
                f"Give lane {lane.name!r} something to run, or remove it.",
            )


def names_of_documents(case: Case) -> Iterator[Refusal]:
    """A lane's folder lies beside the plan's own documents, and one name has one place in a directory."""
    for i, lane in enumerate(case.plan.lanes):
        if lane.name.endswith(_DOCUMENT):
            yield Refusal(
                "lane_named_like_a_document",
                f"/lanes/{i}/name",
                repr(lane.name),
                f"a name that does not end in {_DOCUMENT}, as the plan's own documents do",
                "Give the lane another name.",
            )


def lanes_beyond_limits(case: Case) -> Iterator[Refusal]:
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


def _ordinary(plan: Plan) -> list[PlannedLane]:
    return [lane for lane in plan.lanes if lane.kind == "ordinary"]


def _owners(pairs: Iterable[tuple[str, PlannedLane]]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = defaultdict(list)
    for name, lane in pairs:
        if lane.name not in owners[name]:
            owners[name].append(lane.name)
    return dict(sorted(owners.items()))
