from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats import quantiles
from tests.evalhub.stats.make import quick

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def test_order_statistic_interval_agrees_with_r_confintr() -> None:
    # R package confintr, ci_quantile() on exp(seq(0, 1, by = .01))
    sample = [exp(index / 100) for index in range(101)]

    median = quantiles.order_statistic_interval(sample, q=0.5, confidence=0.90)
    quarter = quantiles.order_statistic_interval(sample, q=0.25, alternative="less")

    assert median == pytest.approx((1.506817785112854, 1.803988415397857), rel=1e-12)
    assert quarter.low is None
    assert quarter.high == pytest.approx(1.39096812846378, rel=1e-12)


def test_order_statistic_interval_lacks_the_end_that_the_data_cannot_give() -> None:
    few = quantiles.order_statistic_interval([1.0, 2.0, 3.0], q=0.95)
    above = quantiles.order_statistic_interval([1.0] * 60, q=0.95, alternative="greater")

    assert (few.low, few.high) == (2.0, None)
    assert above == (1.0, None)


def test_quantile_test_agrees_with_conover() -> None:
    # Conover, Practical Nonparametric Statistics, 3rd ed., p. 139: p = 0.0346
    scores = [189, 233, 195, 160, 212, 176, 231, 185, 199, 213, 202, 193, 174, 166, 248]

    assert quantiles.quantile_test_p(scores, value=193, q=0.75) == pytest.approx(0.0346, abs=5e-5)


def test_rank_bounds_agree_with_wilks() -> None:
    # Wilks (1941): 59 is the smallest sample whose largest value covers 95 % with 95 % confidence.
    assert quantiles.rank_bounds(58, q=0.95).upper is None
    assert quantiles.rank_bounds(59, q=0.95).upper == 59
    assert quantiles.rank_bounds(1, q=0.95, confidence=0.99).lower is None


def test_harrell_davis_weighs_all_values() -> None:
    assert quantiles.harrell_davis([3.0], 0.95) == pytest.approx(3.0)
    # For a symmetric sample the median is its center.
    assert quantiles.harrell_davis([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == pytest.approx(3.0)


@quick
@given(values)
def test_estimates_lie_inside_the_sample(sample: list[float]) -> None:
    for estimate in (quantiles.quantile(sample, 0.95), quantiles.harrell_davis(sample, 0.95)):
        assert min(sample) - 1e-6 <= estimate <= max(sample) + 1e-6


def test_quantiles_refuse_nothing() -> None:
    with pytest.raises(ValueError, match="no quantile"):
        quantiles.quantile([], 0.95)
    with pytest.raises(ValueError, match="no quantile"):
        quantiles.harrell_davis([], 0.95)
    with pytest.raises(ValueError, match="no quantile"):
        quantiles.order_statistic_interval([], q=0.5)
    with pytest.raises(ValueError, match="two-sided, less or greater"):
        quantiles.order_statistic_interval([1.0], q=0.5, alternative="both")
    with pytest.raises(ValueError, match="order statistics"):
        quantiles.rank_bounds(0, q=0.95)
