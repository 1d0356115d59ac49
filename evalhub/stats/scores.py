"""From runs to scenarios: group the scores of one arm, drop and count what is missing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalhub.stats.intervals import LARGEST_MAGNITUDE
from evalhub.stats.paired import FEWEST_BATCHES, BatchNoise, batch_noise
from evalhub.stats.rubric import Kind, MeanRubric, RunScore, RunStatus


class Unit(NamedTuple):
    """What counts as one scenario: its id at one digest. A run without an id stands for itself."""

    scenario: str
    digest: str


class Columns(NamedTuple):
    """The runs of one arm as columns of equal length, in the order given."""

    units: list[Unit]
    codes: NDArray[np.intp]
    values: NDArray[np.float64]
    statuses: tuple[RunStatus, ...]
    batches: tuple[str | None, ...]
    has_ids: bool


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a comparison, in goodness units, with its units (scenarios) in sorted order.

    `values[i]` holds the measured runs of `units[i]`, `missing[i]` how many have no score;
    a unit without any measured run is there too.
    """

    units: tuple[Unit, ...]
    values: tuple[tuple[float, ...], ...]
    missing: tuple[int, ...]
    has_ids: bool
    agent_errors: int = 0
    out_of_scale: int = 0
    not_comparable: int = 0

    @property
    def runs(self) -> int:
        """How many runs were expected, measured or not."""
        return self.measured + self.missing_runs

    @property
    def measured(self) -> int:
        """How many runs have a score."""
        return sum(map(len, self.values))

    @property
    def missing_runs(self) -> int:
        """How many runs have no score."""
        return sum(self.missing)

    @cached_property
    def means(self) -> dict[Unit, float]:
        """The mean of each unit that has a measured run, in sorted order."""
        # fsum is exact, so the order of the runs cannot change a digit.
        return {
            unit: fsum(runs) / len(runs)
            for unit, runs in zip(self.units, self.values, strict=True)
            if runs
        }

    @cached_property
    def sorted_values(self) -> NDArray[np.float64]:
        """All measured runs as one sorted column."""
        return np.sort(np.fromiter(chain.from_iterable(self.values), float, self.measured))

    def only(self, units: set[Unit]) -> "Arm":
        """Return the arm reduced to `units`."""
        kept = [index for index, unit in enumerate(self.units) if unit in units]
        return replace(
            self,
            units=tuple(self.units[index] for index in kept),
            values=tuple(self.values[index] for index in kept),
            missing=tuple(self.missing[index] for index in kept),
        )

    def filled(self, value: float) -> "Arm":
        """Return the arm as if every missing run had scored `value`."""
        return replace(
            self,
            values=tuple(
                (*runs, *[value] * gap) for runs, gap in zip(self.values, self.missing, strict=True)
            ),
            missing=(0,) * len(self.units),
        )


def columns(runs: Sequence[RunScore]) -> Columns:
    """Turn runs into columns; a value that is not a usable number, or not measured, becomes NaN."""
    if not runs:
        empty = np.empty(0)
        return Columns([], empty.astype(np.intp), empty, (), (), has_ids=True)
    scenarios, digests, _, values, statuses, batches = zip(*runs, strict=True)
    has_ids = None not in scenarios
    if not has_ids:
        scenarios = tuple(f"{index:09d}" for index in range(len(runs)))
    numbers: defaultdict[tuple[str, str], int] = defaultdict(count().__next__)
    codes = np.fromiter(
        map(numbers.__getitem__, zip(scenarios, digests, strict=True)), np.intp, len(runs)
    )
    measured = np.array(values, dtype=float)
    # NaN fails the comparison too.
    measured[~(np.abs(measured) <= LARGEST_MAGNITUDE)] = np.nan
    units = [Unit(*key) for key in numbers]
    return Columns(units, codes, measured, statuses, batches, has_ids)


def mean_arm(runs: Sequence[RunScore], *, rubric: MeanRubric) -> Arm:
    """Group the runs of one arm by scenario, in goodness units.

    A run that ended in `agent_error` scores the worst value of the scale (without a scale it counts
    as missing; `agent_errors` tells). A value outside the scale is no score of this rubric: missing.
    """
    table = columns(runs)
    values = table.values.copy()
    if rubric.kind is Kind.BINARY and rubric.sign < 0:
        values = 1.0 - values
    elif rubric.sign < 0:
        values = -values
    agent_errors = not_comparable = out_of_scale = 0
    limits = rubric.goodness_limits
    if limits is not None:
        outside = (values < limits.low - 1e-9) | (values > limits.high + 1e-9)
        out_of_scale = int(np.count_nonzero(outside))
        values[outside] = np.nan
    if set(table.statuses) - {RunStatus.OK}:
        failed = np.array([status == RunStatus.AGENT_ERROR for status in table.statuses])
        unmeasured = np.array([status != RunStatus.OK for status in table.statuses])
        values[unmeasured] = np.nan
        if limits is not None:
            values[failed] = limits.low
        agent_errors = int(np.count_nonzero(failed))
        not_comparable = table.statuses.count(RunStatus.NOT_COMPARABLE)
    return _arm(
        table,
        values,
        agent_errors=agent_errors,
        out_of_scale=out_of_scale,
        not_comparable=not_comparable,
    )


def tail_arm(runs: Sequence[RunScore], *, sign: int) -> Arm:
    """Group the runs of one arm by scenario, so that larger is worse.

    A run that ended in `agent_error` keeps its value if it has one (a crash has taken its time);
    without one it is missing, as it has no place in the order of the others.
    """
    table = columns(runs)
    values = sign * table.values
    if set(table.statuses) - {RunStatus.OK, RunStatus.AGENT_ERROR}:
        measured = (RunStatus.OK, RunStatus.AGENT_ERROR)
        values[np.array([status not in measured for status in table.statuses])] = np.nan
    return _arm(table, values, not_comparable=table.statuses.count(RunStatus.NOT_COMPARABLE))


def baseline_noise(runs: Sequence[RunScore], *, rubric: MeanRubric) -> BatchNoise | None:
    """Return the noise that whole baseline runs share, if five or more of them are named.

    Only scenarios that every one of those runs measured can tell.
    """
    names = {run.batch for run in runs if run.batch is not None}
    if len(names) < FEWEST_BATCHES:
        return None
    by_batch: dict[str, list[RunScore]] = {name: [] for name in sorted(names)}
    for run in runs:
        if run.batch is not None:
            by_batch[run.batch].append(run)
    means = [mean_arm(rows, rubric=rubric).means for rows in by_batch.values()]
    shared = sorted(set(means[0]).intersection(*means[1:]))
    if not shared:
        return None
    return batch_noise(np.array([[batch[unit] for unit in shared] for batch in means]))


def _arm(
    table: Columns,
    values: NDArray[np.float64],
    *,
    agent_errors: int = 0,
    out_of_scale: int = 0,
    not_comparable: int = 0,
) -> Arm:
    order = np.argsort(table.codes, kind="stable")
    by_unit = values[order]
    present = ~np.isnan(by_unit)
    sizes = np.bincount(table.codes, minlength=len(table.units))
    codes = table.codes[order]
    measured = np.bincount(codes[present], minlength=len(table.units))
    ends = np.cumsum(measured).tolist()
    scores = by_unit[present].tolist()
    rows = [tuple(scores[end - size : end]) for end, size in zip(ends, measured, strict=True)]
    ranked = sorted(range(len(table.units)), key=table.units.__getitem__)
    gaps = (sizes - measured).tolist()
    return Arm(
        units=tuple(table.units[index] for index in ranked),
        values=tuple(rows[index] for index in ranked),
        missing=tuple(gaps[index] for index in ranked),
        has_ids=table.has_ids,
        agent_errors=agent_errors,
        out_of_scale=out_of_scale,
        not_comparable=not_comparable,
    )
