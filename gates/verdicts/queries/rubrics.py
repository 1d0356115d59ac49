"""A policy's rubrics as the statistics take them."""

from dataclasses import replace

from evalhub.protocol.policy import Policy
from evalhub.protocol.policy import Rubric as PolicyRubric
from evalhub.stats.rubric import (
    Design,
    Direction,
    Gate,
    Kind,
    MeanRubric,
    Sampling,
    Scale,
    TailRubric,
    ValueType,
)


def stats_rubric(name: str, policy: Policy) -> MeanRubric | TailRubric:
    """Return the rubric `name` of a policy, for the overall slice."""
    rule = policy.rubrics[name]
    return _tail(name, rule, policy) if rule.kind == "tail" else _mean(name, rule, policy)


def category_rubric(rubric: MeanRubric | TailRubric, rule: PolicyRubric) -> MeanRubric | TailRubric:
    """Return a rubric as it is read inside one category, with the category's own floor if set.

    Absolute limits speak about the whole suite; a category has none.
    """
    if isinstance(rubric, TailRubric):
        return replace(rubric, ceiling=None)
    own = rule.category_min_effect
    if own is None:
        return replace(rubric, abs_floor=None)
    return replace(rubric, abs_floor=None, min_effect=own, ni_margin=None)


def limits_of(rule: PolicyRubric) -> Scale | None:
    """Return the lowest and highest value that a rubric can have, in its own units."""
    if rule.kind == "binary":
        return Scale(0.0, 1.0)
    return None if rule.scale is None else Scale(*rule.scale)


def worst_value(rule: PolicyRubric) -> float | None:
    """Return what a crash of the agent scores; None where no scale says so."""
    limits = limits_of(rule)
    if limits is None or rule.kind == "tail":
        return None
    return limits.high if rule.direction == "lower_is_better" else limits.low


def _mean(name: str, rule: PolicyRubric, policy: Policy) -> MeanRubric:
    if rule.min_effect is None or rule.direction is None:
        raise ValueError(
            f"Rubric {name!r} has no floor or direction; its policy was not validated."
        )
    return MeanRubric(
        key=name,
        kind=Kind(rule.kind),
        min_effect=rule.min_effect,
        direction=Direction(rule.direction),
        ni_margin=rule.ni_margin,
        alpha=policy.alpha,
        scale=None if rule.scale is None else Scale(*rule.scale),
        abs_floor=rule.abs_floor,
        gate=Gate(rule.gate),
        design=Design(policy.design),
        scenario_sampling=Sampling(policy.scenario_sampling),
        max_missing=policy.max_missing,
    )


def _tail(name: str, rule: PolicyRubric, policy: Policy) -> TailRubric:
    return TailRubric(
        key=name,
        q=rule.q,
        rel_tol=rule.rel_tol,
        abs_tol=rule.abs_tol,
        ceiling=rule.ceiling,
        ni_tol=rule.ni_tol,
        value_type=ValueType(rule.value_type),
        direction=Direction(rule.direction or "lower_is_better"),
        alpha=policy.alpha,
        gate=Gate(rule.gate),
        scenario_sampling=Sampling(policy.scenario_sampling),
        max_missing=policy.max_missing,
        require_non_inferiority=rule.require == "non_inferiority",
    )
