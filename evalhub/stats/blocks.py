"""The two comparisons that are always made of a mean rubric: unpaired and paired.

Effects are in goodness units (negative is worse), the means of the arms in the rubric's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import harmonic_mean

from evalhub.stats.binary import (
    mcnemar,
    newcombe_interval,
    rao_scott_z,
    rate_test,
)
from evalhub.stats.intervals import Interval, normal_tail, t_tail
from evalhub.stats.paired import BatchNoise, paired_t
from evalhub.stats.power import mde_rates, mde_t, scenarios_required
from evalhub.stats.rubric import Design, Kind, MeanRubric
from evalhub.stats.scores import Arm
from evalhub.stats.welch import Edge, TTest, welch


@dataclass(frozen=True, kw_only=True)
class Block:
    """One way of comparing two arms. None means not defined; `edge` or the sizes say why.

    `n_baseline` and `n_candidate` count scenarios (pairs, where paired). `test` names the test
    behind `p`; `ci90.low` is the one-sided 95 % lower bound.
    """

    design: Design
    test: str
    n_baseline: int
    n_candidate: int
    mean_baseline: float | None = None
    mean_candidate: float | None = None
    delta: float | None = None
    se: float | None = None
    se_batch: float | None = None
    df: float | None = None
    statistic: float | None = None
    p: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    deff: float | None = None
    mde80: float | None = None
    n_required: int | None = None
    p_floor: float | None = None
    tost_p: float | None = None
    edge: Edge | None = None

    @property
    def lower95(self) -> float | None:
        """The one-sided 95 % lower bound of `delta`."""
        return None if self.ci90 is None else self.ci90.low

    @property
    def fewest(self) -> int:
        """The number of scenarios in the smaller arm."""
        return min(self.n_baseline, self.n_candidate)

    @property
    def has_variation(self) -> bool:
        """False where every value (or every difference) is the same."""
        return self.edge is None or self.edge is Edge.N_LT_2


def unpaired_block(baseline: Arm, candidate: Arm, *, rubric: MeanRubric) -> Block:
    """Compare two arms as if they shared no scenario: Welch, or two pass rates.

    One run per scenario makes it the textbook Welch or pooled z test.
    """
    means_b, means_c = list(baseline.means.values()), list(candidate.means.values())
    empty = Block(
        design=Design.UNPAIRED, test="welch", n_baseline=len(means_b), n_candidate=len(means_c)
    )
    if rubric.kind is Kind.CONTINUOUS:
        block = _with_t_test(empty, welch(means_b, means_c), alpha=rubric.alpha)
    elif min(len(means_b), len(means_c)) < 2:
        block = replace(empty, test="pooled_z", edge=Edge.N_LT_2)
    elif _is_single(baseline) and _is_single(candidate):
        block = _single_rates(empty, means_b, means_c, alpha=rubric.alpha)
    else:
        block = _clustered_rates(empty, baseline, candidate, alpha=rubric.alpha)
    means = (_mean(means_b), _mean(means_c)) if block.mean_baseline is None else (None, None)
    return _finished(block, rubric=rubric, means=means)


def paired_block(
    baseline: Arm, candidate: Arm, *, rubric: MeanRubric, noise: BatchNoise | None = None
) -> Block | None:
    """Compare two arms on the scenarios that both measured; None where scenarios have no ids.

    The paired t test on scenario means; single binary runs are tested by McNemar's mid-p.
    """
    if not (baseline.has_ids and candidate.has_ids):
        return None
    means_b, means_c = baseline.means, candidate.means
    shared = [unit for unit in means_b if unit in means_c]
    values_b = [means_b[unit] for unit in shared]
    values_c = [means_c[unit] for unit in shared]
    empty = Block(
        design=Design.PAIRED, test="paired_t", n_baseline=len(shared), n_candidate=len(shared)
    )
    block = _with_t_test(empty, paired_t(values_b, values_c, noise=noise), alpha=rubric.alpha)
    if noise is not None:
        block = replace(block, se_batch=sqrt(noise.of_difference))
    if rubric.kind is Kind.BINARY and block.fewest >= 2:
        kept = set(shared)
        single = _is_single(baseline.only(kept)) and _is_single(candidate.only(kept))
        block = _paired_rates(block, values_b, values_c, single=single, alpha=rubric.alpha)
    return _finished(block, rubric=rubric, means=(_mean(values_b), _mean(values_c)))


def _with_t_test(block: Block, test: TTest, *, alpha: float) -> Block:
    block = replace(
        block,
        delta=test.delta,
        se=test.se,
        df=test.df,
        statistic=test.t,
        p=test.p,
        ci95=test.ci95,
        ci90=test.ci90,
        edge=test.edge,
    )
    if test.se is None or test.df is None:
        return block
    return replace(block, mde80=mde_t(se=test.se, df=test.df, alpha=alpha))


def _single_rates(
    block: Block, means_b: list[float], means_c: list[float], *, alpha: float
) -> Block:
    x_b, n_b, x_c, n_c = round(sum(means_b)), len(means_b), round(sum(means_c)), len(means_c)
    test = rate_test(x_b, n_b, x_c, n_c)
    block = _with_rates(block, x_b, n_b, x_c, n_c, alpha=alpha)
    name = "pooled_z" if test.method == "z" else test.method
    return replace(block, test=name, statistic=test.z, p=test.p)


def _clustered_rates(block: Block, baseline: Arm, candidate: Arm, *, alpha: float) -> Block:
    runs_b, runs_c = [r for r in baseline.values if r], [r for r in candidate.values if r]
    test = rao_scott_z(
        [sum(runs) for runs in runs_b],
        [len(runs) for runs in runs_b],
        [sum(runs) for runs in runs_c],
        [len(runs) for runs in runs_c],
    )
    block = _with_rates(block, test.passes_b, test.runs_b, test.passes_c, test.runs_c, alpha=alpha)
    return replace(block, test="rao_scott_z", statistic=test.z, p=test.p, deff=test.deff)


def _with_rates(
    block: Block, x_b: float, n_b: float, x_c: float, n_c: float, *, alpha: float
) -> Block:
    rate_b, rate_c = min(1.0, x_b / n_b), min(1.0, x_c / n_c)
    variance = rate_b * (1 - rate_b) / n_b + rate_c * (1 - rate_c) / n_c
    pooled = (x_b + x_c) / (n_b + n_c)
    return replace(
        block,
        mean_baseline=rate_b,
        mean_candidate=rate_c,
        delta=rate_c - rate_b,
        se=sqrt(variance) if variance > 0 else None,
        ci95=newcombe_interval(x_b, n_b, x_c, n_c, confidence=0.95),
        ci90=newcombe_interval(x_b, n_b, x_c, n_c, confidence=0.90),
        mde80=mde_rates(_varying_rate(pooled, n_b + n_c), n_b, n_c, alpha=alpha),
        edge=None if 0 < pooled < 1 else Edge.ZERO_VARIANCE_EQUAL,
    )


def _paired_rates(
    block: Block, values_b: list[float], values_c: list[float], *, single: bool, alpha: float
) -> Block:
    if single:
        changes = [c - b for b, c in zip(values_b, values_c, strict=True)]
        test = mcnemar(sum(d < 0 for d in changes), sum(d > 0 for d in changes))
        block = replace(block, test="mcnemar_midp", statistic=test.z, p=test.midp)
    if block.se is not None:
        return block
    # All differences are equal: t has no bound, but the rates themselves have one.
    n = len(values_b)
    rates = _with_rates(block, sum(values_b), n, sum(values_c), n, alpha=alpha)
    return replace(block, ci95=rates.ci95, ci90=rates.ci90, mde80=rates.mde80)


def _finished(
    block: Block, *, rubric: MeanRubric, means: tuple[float | None, float | None]
) -> Block:
    mean_b = block.mean_baseline if means[0] is None else means[0]
    mean_c = block.mean_candidate if means[1] is None else means[1]
    return replace(
        block,
        mean_baseline=None if mean_b is None else rubric.goodness(mean_b),
        mean_candidate=None if mean_c is None else rubric.goodness(mean_c),
        n_required=_required(block, rubric=rubric),
        p_floor=_floor_p(block, rubric=rubric),
        tost_p=_equivalence_p(block, rubric=rubric),
    )


def _required(block: Block, *, rubric: MeanRubric) -> int | None:
    if block.mde80 is None:
        return None
    size = harmonic_mean([block.n_baseline, block.n_candidate])
    return scenarios_required(size, mde=block.mde80, floor=rubric.min_effect)


def _floor_p(block: Block, *, rubric: MeanRubric) -> float | None:
    """Return the p against "the drop is smaller than the floor"."""
    if block.delta is None or block.se is None:
        return None
    return _tail(-(block.delta + rubric.min_effect) / block.se, df=block.df)


def _equivalence_p(block: Block, *, rubric: MeanRubric) -> float | None:
    if block.delta is None or block.se is None:
        return None
    return max(
        _tail((block.delta + rubric.margin) / block.se, df=block.df),
        _tail((rubric.margin - block.delta) / block.se, df=block.df),
    )


def _tail(statistic: float, *, df: float | None) -> float:
    return normal_tail(statistic) if df is None else t_tail(statistic, df=df)


def _is_single(arm: Arm) -> bool:
    """Say whether each measured scenario has one run, and that is a plain pass or fail."""
    return all(len(runs) == 1 and runs[0] in (0.0, 1.0) for runs in arm.values if runs)


def _varying_rate(rate: float, trials: float) -> float:
    """Pull a rate of 0 or 1 inside: all passing does not mean that nothing could ever fail.

    Agresti and Coull 1998, The American Statistician 52:119-126: two successes and two failures.
    """
    return rate if 0 < rate < 1 else (rate * trials + 2) / (trials + 4)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
