"""Did both arms run the same scenarios? Otherwise a comparison measures the suite."""

from typing import NamedTuple

from evalhub.stats.rubric import Design, MeanRubric, Sampling
from evalhub.stats.scores import Arm, Unit

FEWEST_SHARED = 5
SMALLEST_SHARED_SHARE = 0.8


class SuiteChange(NamedTuple):
    """Scenarios that both arms have at one digest, and those that only one has, or has changed."""

    shared: frozenset[Unit]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    larger: int

    @property
    def is_changed(self) -> bool:
        """True when so few scenarios are shared that a PASS would not speak for the suite."""
        return len(self.shared) < SMALLEST_SHARED_SHARE * self.larger

    @property
    def is_same(self) -> bool:
        """True when both arms have exactly the same scenarios."""
        return len(self.shared) == self.larger


def suite_change(baseline: Arm, candidate: Arm) -> SuiteChange:
    """Compare the scenarios of two arms, measured or not; runs without ids have none to compare.

    Nor has a candidate without a baseline: its scenarios are not news.
    """
    if not (baseline.has_ids and candidate.has_ids and baseline.units):
        return SuiteChange(frozenset(), (), (), (), 0)
    units_b, units_c = set(baseline.units), set(candidate.units)
    names_b = {unit.scenario for unit in units_b}
    names_c = {unit.scenario for unit in units_c}
    shared = frozenset(units_b & units_c)
    unchanged = {unit.scenario for unit in shared}
    return SuiteChange(
        shared=shared,
        added=tuple(sorted(names_c - names_b)),
        removed=tuple(sorted(names_b - names_c)),
        changed=tuple(sorted((names_b & names_c) - unchanged)),
        larger=max(len(units_b), len(units_c)),
    )


def deciding_design(change: SuiteChange, *, rubric: MeanRubric, has_ids: bool) -> Design | None:
    """Return which comparison decides; None if neither may (the suites do not match).

    Paired on five or more shared scenarios; unpaired only where it is asked for, where there are
    no scenario ids, or where each arm drew its own scenarios.
    """
    drawn_anew = not change.shared and rubric.scenario_sampling is Sampling.RANDOM_DRAW
    if not has_ids or rubric.design is Design.UNPAIRED or drawn_anew:
        return Design.UNPAIRED
    return Design.PAIRED if len(change.shared) >= FEWEST_SHARED else None
