"""A policy in plain words, rubric by rubric, and what in it contradicts itself or does nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from evalhub.protocol.policy import Policy, Rubric
from evalhub.runner.visibility import LEAST_SCENARIOS, LEAST_TAIL_RUNS, Visible, blocking

_TAIL_FIELDS = ("q", "rel_tol", "abs_tol", "ceiling", "ni_tol", "value_type", "require")
_MEAN_FIELDS = ("min_effect", "ni_margin", "category_min_effect", "abs_floor")
_GATES = {
    "block": "BLOCKS",
    "warn": "warns and never blocks",
    "info": "is shown and never blocks",
}


class Doubt(NamedTuple):
    """Something in a policy that is probably not meant so."""

    pointer: str
    sentence: str


def rubric_words(name: str, rubric: Rubric, policy: Policy) -> list[str]:
    """Return what a rubric demands, in sentences."""
    told = [f"{name} ({rubric.kind}) {_GATES[rubric.gate]}."]
    told += _tail_words(rubric) if rubric.kind == "tail" else _mean_words(rubric, policy)
    if rubric.source == "result":
        told.append("Its values are those that the run measured itself.")
    else:
        told.append(f"Judged by {', then '.join(rubric.stages)}; the last with a value decides.")
    if rubric.gate == "block":
        told.append(_alpha_words(policy))
    if rubric.fault_gate == "block":
        told.append("Blocks too where an arm under faults is worse than the clean one.")
    return told


def _mean_words(rubric: Rubric, policy: Policy) -> list[str]:
    worse = "drop" if rubric.direction == "higher_is_better" else "rise"
    floor, margin = rubric.min_effect, rubric.ni_margin or rubric.min_effect
    told = [
        f"A {worse} of {floor:g} or more that chance does not explain is a regression (the floor);"
        f" PASS takes the proof that it is less than {margin:g} worse (the margin)."
    ]
    if rubric.category_min_effect is not None and policy.gate_by == "category":
        told.append(f"In one category the floor is {rubric.category_min_effect:g}.")
    if rubric.abs_floor is not None:
        told.append(f"Whatever came before: surely beyond {rubric.abs_floor:g} fails.")
    return told


def _tail_words(rubric: Rubric) -> list[str]:
    told = [
        f"The {rubric.q:.0%} quantile is worse when more runs than chance explains lie beyond the"
        f" baseline's, with {rubric.rel_tol:.0%} and {rubric.abs_tol:g} of tolerance;"
        f" with fewer than {LEAST_TAIL_RUNS} runs it is not tested (TAIL_N)."
    ]
    if rubric.ceiling is not None:
        told.append(f"Whatever came before: surely above {rubric.ceiling:g} fails.")
    if rubric.require is not None:
        told.append("PASS takes the proof that it is not worse; to see no breach is not enough.")
    return told


def _alpha_words(policy: Policy) -> str:
    count = len(blocking(policy))
    if policy.multiplicity == "none" or count == 1:
        return f"False alarms: at most {policy.alpha:.1%} of unchanged agents, for this rubric."
    return (
        f"False alarms: at most {policy.alpha:.1%} of unchanged agents over all {count} blocking"
        f" rubrics of an arm together (Holm; the hardest is tested at {policy.alpha / count:.2%})."
    )


def policy_words(policy: Policy) -> list[str]:
    """Return what a policy demands of a plan whatever the rubrics say."""
    events = [
        name.removesuffix("_") for name, value in policy.inconclusive if value == "action_required"
    ]
    claims = [f"{name}: {claim}" for name, claim in policy.isolation if claim != "not_claimed"]
    unclaimed = [name for name, claim in policy.isolation if claim == "not_claimed"]
    required = ", ".join(policy.guards.required)
    match_rate = policy.environment.minimum_match_rate
    told = [
        f"Undecided for lack of data: action required on {', '.join(events)}; neutral elsewhere."
        if events
        else "Undecided for lack of data: neutral on every event.",
        f"At most {policy.max_missing:.0%} of values may be missing and {policy.max_unmeasured:.0%}"
        " of runs unmeasured.",
        f"Guards that must have passed within {policy.guards.max_age_minutes} minutes: {required}."
        if required
        else "No guard is required before a plan is registered.",
        f"Isolation that lanes must prove: {', '.join(claims)}."
        if claims
        else "Lanes need not prove any isolation.",
        f"The environment is at least {policy.environment.minimum_tier}"
        + (f", and its probes match at {match_rate:.0%}." if match_rate is not None else "."),
        f"A maintainer may waive a named regression for up to {policy.waivers.max_days} days."
        if policy.waivers.allowed
        else "No regression can be waived.",
        "The first complete plan of the default branch becomes the baseline by itself."
        if policy.baseline.auto_adopt
        else "A maintainer adopts the first baseline by name.",
    ]
    if claims and unclaimed:
        told.insert(4, f"Not claimed, listed in the check: {', '.join(unclaimed)}.")
    return told


def doubts(policy: Policy, document: Mapping[str, Any]) -> Iterator[Doubt]:
    """Yield what contradicts itself or has no effect; `document` is the file as it was written."""
    if not blocking(policy):
        yield Doubt(
            "/rubrics", "No rubric blocks: every plan is action_required, whatever it says."
        )
    for name, rubric in policy.rubrics.items():
        for field, sentence in _rubric_doubts(rubric, document["rubrics"][name], policy):
            yield Doubt(f"/rubrics/{name}/{field}", sentence)
    given = document.get("waivers")
    if not policy.waivers.allowed and isinstance(given, Mapping) and "max_days" in given:
        yield Doubt("/waivers/max_days", "max_days has no effect: waivers are not allowed.")
    for field in ("max_missing", "max_unmeasured"):
        if getattr(policy, field) >= 0.5:
            yield Doubt(f"/{field}", f"{field} lets half of the evidence be absent.")
    if policy.inconclusive.merge_group == "neutral":
        yield Doubt(
            "/inconclusive/merge_group", "The merge queue lets a change through that is undecided."
        )


def _rubric_doubts(
    rubric: Rubric, given: Mapping[str, Any], policy: Policy
) -> Iterator[tuple[str, str]]:
    idle = _MEAN_FIELDS if rubric.kind == "tail" else _TAIL_FIELDS
    for field in idle:
        if field in given:
            yield field, f"{field} has no effect on a {rubric.kind} rubric."
    if rubric.kind != "tail":
        yield from _mean_doubts(rubric, policy)
    elif rubric.require is not None and rubric.gate != "block":
        yield "require", "require has no effect: the rubric does not block."
    if rubric.gate == "block" and rubric.stages and rubric.stages[0] == "human":
        yield "stages", "Only people score it: in CI it stays not judged until they have."
    if rubric.fault_gate == "block" and rubric.gate != "block":
        yield "fault_gate", f"fault_gate blocks a rubric that otherwise {_GATES[rubric.gate]}."


def _mean_doubts(rubric: Rubric, policy: Policy) -> Iterator[tuple[str, str]]:
    low, high = (0.0, 1.0) if rubric.kind == "binary" else rubric.scale or (None, None)
    if low is not None and high is not None:
        if rubric.min_effect is not None and rubric.min_effect >= high - low:
            yield (
                "min_effect",
                f"min_effect is the whole scale of {high - low:g}: nothing can block.",
            )
        if rubric.abs_floor is not None and not low <= rubric.abs_floor <= high:
            yield "abs_floor", f"abs_floor lies outside of the scale {low:g} to {high:g}."
    elif rubric.kind == "continuous":
        yield "scale", "Without a scale a crash of the agent cannot be scored (NO_SCALE)."
    if rubric.ni_margin and rubric.min_effect and rubric.ni_margin > rubric.min_effect:
        yield (
            "ni_margin",
            "ni_margin is wider than min_effect: what regresses can pass as no worse.",
        )
    if rubric.category_min_effect is not None and policy.gate_by == "overall":
        yield "category_min_effect", "category_min_effect has no effect: gate_by is overall."


def visible_words(row: Visible, rubric: Rubric) -> str:
    """Return in one sentence what this much data can see of a rubric."""
    place = f"In {row.category}: " if row.category is not None else ""
    told = _tail_sight(row) if rubric.kind == "tail" else _mean_sight(row, rubric)
    return f"{place}{row.scenarios} scenarios, {row.runs} runs: {told}"


def _tail_sight(row: Visible) -> str:
    if row.runs >= LEAST_TAIL_RUNS:
        return "enough to be tested."
    return (
        f"NOT TESTED, at least {LEAST_TAIL_RUNS} runs are needed ({row.needed} scenarios with these"
        " epochs)."
    )


def _mean_sight(row: Visible, rubric: Rubric) -> str:
    if row.scenarios < LEAST_SCENARIOS:
        return f"too few to compare, at least {LEAST_SCENARIOS} scenarios are needed."
    if row.smallest is None or row.floor is None:
        return "what is visible cannot be told without a scale or measured noise."
    worse = "drop" if rubric.direction == "higher_is_better" else "rise"
    told = f"the smallest {worse} seen four times out of five is {row.smallest:.3g}"
    if row.smallest <= row.floor:
        return f"{told}, so the floor of {row.floor:g} is visible."
    needed = f"about {row.needed} scenarios would" if row.needed else "no suite would"
    return f"{told}, MORE than the floor of {row.floor:g}; {needed} show the floor."
