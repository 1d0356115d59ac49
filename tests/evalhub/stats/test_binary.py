from math import isfinite

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalhub.stats.binary import (
    boschloo_test,
    fisher_more,
    fisher_p,
    mcnemar,
    newcombe_interval,
    pooled_z,
    rao_scott_z,
    rate_test,
    wilson_interval,
)
from tests.evalhub.stats.make import quick

counts = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_agrees_with_newcombe(passed: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(passed, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("baseline", "candidate", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17:873-890, table II, method 10, contrasts a-h
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.0582, 0.8062),
        ((0, 29), (5, 56), -0.0381, 0.1926),
        ((0, 20), (0, 10), -0.1611, 0.2775),
        ((0, 10), (10, 10), 0.6075, 1.0000),
        # Fagerland, Lydersen and Laake (2015), Stat. Methods Med. Res. 24:224-254: 0.019 to 0.34
        ((1, 34), (7, 34), 0.0189, 0.3404),
    ],
)
def test_newcombe_agrees_with_its_author(
    baseline: tuple[int, int], candidate: tuple[int, int], low: float, high: float
) -> None:
    assert newcombe_interval(*baseline, *candidate) == pytest.approx((low, high), abs=5e-5)


@quick
@given(counts, counts)
def test_newcombe_contains_the_difference_and_mirrors(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    interval = newcombe_interval(*one, *other)
    mirrored = newcombe_interval(*other, *one)

    delta = other[0] / other[1] - one[0] / one[1]
    assert -1 <= interval.low <= delta + 1e-12
    assert delta - 1e-12 <= interval.high <= 1
    assert interval == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-12)


@quick
@given(counts)
def test_wilson_stays_inside_and_contains_the_rate(count: tuple[int, int]) -> None:
    passed, trials = count
    interval = wilson_interval(passed, trials)

    assert 0 <= interval.low <= passed / trials <= interval.high <= 1


def test_pooled_z_agrees_with_statsmodels_manual() -> None:
    # statsmodels proportions_ztest documentation: counts 5 and 12 of 83 and 99, p = 0.159
    assert pooled_z(12, 99, 5, 83).p == pytest.approx(0.159, abs=5e-4)


def test_pooled_z_is_undefined_where_nothing_varies() -> None:
    assert pooled_z(50, 50, 50, 50) == (None, 1.0)
    assert pooled_z(0, 20, 0, 10) == (None, 1.0)


@pytest.mark.parametrize(
    ("table", "statistic", "p"),
    [
        # R package Exact, exact.test(method = "Boschloo", tsmethod = "central")
        ((2, 10, 7, 9), 0.01852173, 0.01977228),
        ((43, 53, 40, 79), 0.0002875544, 0.0003231115),
    ],
)
def test_boschloo_agrees_with_r(
    table: tuple[int, int, int, int], statistic: float, p: float
) -> None:
    result = boschloo_test(*table)

    assert result.fisher_statistic == pytest.approx(statistic, rel=1e-4)
    assert result.p == pytest.approx(p, rel=2e-4)


def test_fisher_agrees_with_the_tea_tasting() -> None:
    # Agresti, Categorical Data Analysis: one-sided 0.2429, two-sided 0.4857
    assert fisher_p(3, 4, 1, 4) == pytest.approx(0.4857, abs=5e-5)
    assert fisher_more(1, 4, 3, 4) == pytest.approx(0.2429, abs=5e-5)


def test_rate_test_chooses_by_size() -> None:
    assert rate_test(50, 50, 45, 50).method == "z"
    assert rate_test(6, 6, 1, 6).method == "boschloo"
    assert rate_test(6, 6, 6, 6) == ("boschloo", 0.0, None, 1.0)
    assert rate_test(50, 50, 50, 50) == ("z", 0.0, None, 1.0)
    assert rate_test(200, 200, 199, 200).method == "fisher"
    assert rate_test(100, 100, 99, 100).method == "boschloo"


@pytest.mark.parametrize(
    ("n_b", "n_c", "largest"),
    [(5, 5, 0.021), (8, 8, 0.028), (12, 12, 0.064), (20, 20, 0.053)],
)
def test_rate_test_keeps_its_size(n_b: int, n_c: int, largest: float) -> None:
    """Exact size over all true rates, by enumeration of every table."""
    rates = np.linspace(0.01, 0.99, 99)
    size = np.zeros_like(rates)
    for x_b in range(n_b + 1):
        for x_c in range(n_c + 1):
            # Only tables that z rejects clearly can be rejected at all; the rest save time.
            if pooled_z(x_b, n_b, x_c, n_c).p < 0.10 and rate_test(x_b, n_b, x_c, n_c).p < 0.05:
                size += stats.binom.pmf(x_b, n_b, rates) * stats.binom.pmf(x_c, n_c, rates)

    assert size.max() == pytest.approx(largest, abs=0.0015)


@quick
@given(counts, counts)
def test_pooled_z_mirrors_and_is_finite(one: tuple[int, int], other: tuple[int, int]) -> None:
    forward, backward = pooled_z(*one, *other), pooled_z(*other, *one)

    assert forward.p == pytest.approx(backward.p)
    assert 0 <= forward.p <= 1
    assert forward.z is None or isfinite(forward.z)


def test_mcnemar_counts_only_pairs_that_changed() -> None:
    # Exact: 2 * 0.5^6 = 0.03125; mid-p is half of it less the point probability: 0.015625
    result = mcnemar(6, 0)

    assert result.exact == 0.03125
    assert result.midp == pytest.approx(0.015625)
    assert result.z == pytest.approx(-(6**0.5))
    assert mcnemar(0, 0) == (1.0, 1.0, None)
    assert mcnemar(3, 3).midp <= 1


@quick
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_symmetric_and_midp_is_smaller(worse: int, better: int) -> None:
    result = mcnemar(worse, better)

    assert result.midp == pytest.approx(mcnemar(better, worse).midp)
    assert result.midp <= result.exact + 1e-12


def test_rao_scott_divides_counts_by_the_design_effect() -> None:
    # Two scenarios that always agree within themselves: five runs are worth one.
    result = rao_scott_z([5, 0, 5, 0], [5] * 4, [5, 0, 0, 0], [5] * 4)

    assert result.deff == pytest.approx((result.deff_b + result.deff_c) / 2)
    assert result.deff_b == 5.0
    assert result.runs_b == pytest.approx(4.0)
    assert result.p == pytest.approx(pooled_z(2, 4, 1, 4).p)


def test_rates_refuse_impossible_counts() -> None:
    with pytest.raises(ValueError, match="no interval"):
        wilson_interval(0, 0)
    with pytest.raises(ValueError, match="no interval"):
        newcombe_interval(0, 0, 1, 2)
    with pytest.raises(ValueError, match="no interval"):
        newcombe_interval(1, 2, 0, 0)
    with pytest.raises(ValueError, match="not a rate"):
        pooled_z(3, 2, 0, 2)
    with pytest.raises(ValueError, match="not a rate"):
        boschloo_test(0, 0, 1, 2)
    with pytest.raises(ValueError, match="not a rate"):
        fisher_p(0, 2, 3, 2)
    with pytest.raises(ValueError, match="counts of pairs"):
        mcnemar(-1, 2)
    with pytest.raises(ValueError, match="two scenarios"):
        rao_scott_z([1], [1], [1, 1], [1, 1])
