"""Which lane runs which scenario: units that must stay together, heaviest first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evalhub.protocol.suite import SuiteScenario
from evalhub.runner.errors import InputError


class Unit(NamedTuple):
    """Scenarios that one lane must run whole, and the minutes that they take together."""

    weight_minutes: float
    scenarios: tuple[SuiteScenario, ...]

    @property
    def categories(self) -> set[str]:
        return {scenario.category for scenario in self.scenarios}


def cohesive_units(scenarios: Sequence[SuiteScenario], *, cohesive: Iterable[str]) -> list[Unit]:
    """Return scenarios in the groups that share a cohesive artifact; every other one by itself.

    The order depends on ids alone, so that equal suites give equal plans.
    """
    kept_together = set(cohesive)
    group_of: dict[str, str] = {}
    leader: dict[str, str] = {}
    for scenario in sorted(scenarios, key=lambda s: s.id):
        group_of[scenario.id] = scenario.id
        for artifact in sorted(kept_together & set(scenario.artifacts)):
            other = group_of[leader.setdefault(artifact, scenario.id)]
            own = group_of[scenario.id]
            group_of.update({i: other for i, group in group_of.items() if group == own})
    groups: dict[str, list[SuiteScenario]] = {}
    for scenario in sorted(scenarios, key=lambda s: s.id):
        groups.setdefault(group_of[scenario.id], []).append(scenario)
    return [Unit(sum(s.weight_minutes for s in group), tuple(group)) for group in groups.values()]


def heaviest_first(units: Sequence[Unit], *, lanes: int) -> list[list[Unit]]:
    """Return `units` in at most `lanes` shares: the heaviest that is left to the lightest share.

    No share is empty: fewer units than lanes give fewer shares.
    """
    shares: list[list[Unit]] = [[] for _ in range(min(lanes, len(units)))]
    weights = [0.0] * len(shares)
    for unit in sorted(units, key=lambda u: (-u.weight_minutes, u.scenarios[0].id)):
        lightest = weights.index(min(weights))
        shares[lightest].append(unit)
        weights[lightest] += unit.weight_minutes
    return shares


def parted_by_memory(
    units: Sequence[Unit], *, memory_categories: Iterable[str]
) -> Mapping[bool, list[Unit]]:
    """Return the units that need memory (True) and those that must not have it (False).

    Raises:
        InputError: if a group that must stay together would need both.
    """
    needs = set(memory_categories)
    parted: dict[bool, list[Unit]] = {True: [], False: []}
    for unit in units:
        with_memory = unit.categories & needs
        if with_memory and unit.categories - needs:
            raise InputError(
                f"The scenarios {_some(s.id for s in unit.scenarios)} share a cohesive artifact, "
                f"but only category {_some(sorted(with_memory))} needs memory; take the artifact off "
                "`cohesive`, or let all of their categories need memory."
            )
        parted[bool(with_memory)].append(unit)
    return parted


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more
