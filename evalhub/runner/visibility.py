"""What a policy can see with a suite: the smallest visible drop of each rubric, and what would be needed.

Noise comes from the project's own verdicts where there are any; else it is assumed, and said so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt
from statistics import median
from typing import Any, NamedTuple

from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy, Rubric
from evalhub.protocol.suite import Suite
from evalhub.stats.intervals import normal_quantile
from evalhub.stats.power import mde_t, scenarios_required

LEAST_TAIL_RUNS = 20
"""Below that many runs of each side a tail is not tested at all (TAIL_N)."""
LEAST_SCENARIOS = 5
"""Fewer scenarios in common are no pairs to compare (SUITE_MISMATCH)."""
ASSUMED_RATE = 0.8
"""A pass rate for a rubric of which nothing is known: near it the noise is neither least nor most."""
ASSUMED_SPREAD = 0.2
"""The standard deviation of one run, as a share of the scale, where nothing is known."""
ASSUMED_SHARED = 0.5
"""How much of the variance of runs lies between scenarios, and so goes when they are paired."""
POWER = 0.80


class Noise(NamedTuple):
    """How small a drop was visible in earlier plans, brought to one scenario: mde·sqrt(n)."""

    per_scenario: float
    plans: int


class Visible(NamedTuple):
    """What can be seen of one rubric, overall or in one category; None where it cannot be told."""

    rubric: str
    category: str | None
    scenarios: int
    runs: int
    floor: float | None
    smallest: float | None
    needed: int | None
    measured_plans: int
    """How many plans the noise was measured over; 0: assumed."""


def measured_noise(conclusions: Iterable[Mapping[str, Any]]) -> dict[str, Noise]:
    """Return the noise of each rubric, the median over conclusions of what their verdicts tell."""
    found: dict[str, list[float]] = {}
    for conclusion in conclusions:
        for rubric, noise in _noise_of(conclusion).items():
            found.setdefault(rubric, []).append(noise)
    return {rubric: Noise(median(values), len(values)) for rubric, values in found.items()}


def _noise_of(conclusion: Mapping[str, Any]) -> dict[str, float]:
    noise: dict[str, float] = {}
    for verdict in conclusion.get("verdicts", []):
        counts = verdict.get("n")
        if verdict.get("category") is not None or not isinstance(counts, Mapping):
            continue
        n = counts.get("pairs") or min(counts.get("b") or 0, counts.get("c") or 0)
        if verdict.get("mde") and n:
            # Of several arms and comparisons the noisiest counts: the gate looks at all of them.
            told = verdict["mde"] * sqrt(n)
            noise[verdict["rubric"]] = max(told, noise.get(verdict["rubric"], 0.0))
    return noise


def visible(
    policy: Policy, suite: Suite, *, epochs: int, noise: Mapping[str, Noise]
) -> list[Visible]:
    """Return what can be seen of each rubric with so many epochs; by category where that gates."""
    places: list[tuple[str | None, int]] = [(None, len(suite.scenarios))]
    if policy.gate_by == "category":
        places += sorted(Counter(scenario.category for scenario in suite.scenarios).items())
    tests = max(1, len(blocking(policy))) if policy.multiplicity == "holm" else 1
    return [
        _visible(name, rubric, place, _Means(policy, tests, epochs, noise.get(name)))
        for name, rubric in policy.rubrics.items()
        for place in places
    ]


def blocking(policy: Policy) -> list[str]:
    """Return the rubrics that can block."""
    return [name for name, rubric in policy.rubrics.items() if rubric.gate == "block"]


class _Means(NamedTuple):
    policy: Policy
    tests: int
    epochs: int
    noise: Noise | None


def _visible(name: str, rubric: Rubric, place: tuple[str | None, int], means: _Means) -> Visible:
    category, n = place
    floor = rubric.min_effect
    if category is not None and rubric.category_min_effect is not None:
        floor = rubric.category_min_effect
    told = Visible(name, category, n, n * means.epochs, floor, None, None, 0)
    if rubric.kind == "tail":
        return told._replace(floor=None, needed=ceil(LEAST_TAIL_RUNS / means.epochs))
    alpha = means.policy.alpha / (means.tests if rubric.gate == "block" else 1)
    if means.noise is not None:
        smallest = means.noise.per_scenario / sqrt(n) * _harder(means.policy.alpha, alpha)
        told = told._replace(measured_plans=means.noise.plans)
    else:
        assumed = _assumed(rubric, n, means, alpha=alpha)
        if assumed is None:
            return told
        smallest = assumed
    needed = scenarios_required(n, mde=smallest, floor=floor) if floor else None
    return told._replace(smallest=smallest, needed=needed)


def _assumed(rubric: Rubric, n: int, means: _Means, *, alpha: float) -> float | None:
    spread = assumed_spread(rubric)
    if spread is None or n < 2:
        return None
    within = (1 - ASSUMED_SHARED) / means.epochs
    if means.policy.design == "unpaired":
        # Each side's scenarios are drawn anew.
        return mde_t(se=spread * sqrt(2 * (ASSUMED_SHARED + within) / n), df=2 * n - 2, alpha=alpha)
    return mde_t(se=spread * sqrt(2 * within / n), df=n - 1, alpha=alpha)


def assumed_spread(rubric: Rubric) -> float | None:
    """Return the standard deviation that is assumed of one run; None without a scale to go by."""
    if rubric.kind == "binary":
        return sqrt(ASSUMED_RATE * (1 - ASSUMED_RATE))
    if rubric.scale is None:
        return None
    return ASSUMED_SPREAD * (rubric.scale[1] - rubric.scale[0])


def _harder(alpha: float, adjusted: float) -> float:
    """Return how much larger a drop must be to be seen at the smaller alpha of several tests."""
    power = normal_quantile(POWER)
    needed = normal_quantile(1 - adjusted / 2) + power
    return needed / (normal_quantile(1 - alpha / 2) + power)


def tails_too_few(rows: Sequence[Visible], policy: Policy) -> list[Visible]:
    """Return the tails that will not be tested: too few runs."""
    return [
        row
        for row in rows
        if policy.rubrics[row.rubric].kind == "tail" and row.runs < LEAST_TAIL_RUNS
    ]


def too_small_words(plan: Plan, policy: Policy) -> list[str]:
    """Return a sentence for each kind of rubric that a plan is too small to decide."""
    keys = {(key.scenario, key.arm, key.epoch) for lane in plan.lanes for key in lane.run_keys}
    scenarios = len({scenario for scenario, _, _ in keys})
    kinds = {name: policy.rubrics[name].kind for name in plan.rubrics if name in policy.rubrics}
    paired = sorted(name for name, kind in kinds.items() if kind != "tail")
    tails = sorted(name for name, kind in kinds.items() if kind == "tail")
    said = []
    if paired and policy.design != "unpaired" and scenarios < LEAST_SCENARIOS:
        said.append(
            f"The plan runs {_count(scenarios, 'scenario')}; a paired comparison takes at least"
            f" {LEAST_SCENARIOS} that both sides ran, so {', '.join(paired)} can never pass: add"
            " scenarios."
        )
    smallest = min(Counter(arm for _, arm, _ in keys).values(), default=0)
    if tails and smallest < LEAST_TAIL_RUNS:
        said.append(
            f"The plan gives an arm only {_count(smallest, 'run')}; a tail takes at least"
            f" {LEAST_TAIL_RUNS} of each arm, so {', '.join(tails)} can never pass: add scenarios"
            " or epochs."
        )
    return said


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
