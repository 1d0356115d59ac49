from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.trend import YEARLY_LIMIT, bernoulli_cusum, clean_rate
from tests.evalhub.stats.make import quick


def test_cusum_accumulates_the_log_likelihood_ratio() -> None:
    path = bernoulli_cusum([20, 17, 16], probes=[20, 20, 20], p0=0.95, p1=0.85)

    clean = 20 * log(0.85 / 0.95)
    weak = 17 * log(0.85 / 0.95) + 3 * log(0.15 / 0.05)
    worse = 16 * log(0.85 / 0.95) + 4 * log(0.15 / 0.05)
    assert path.statistic == pytest.approx((clean, weak, weak + worse))
    assert path.alarm is None


def test_cusum_alarms_once_the_yearly_limit_is_reached() -> None:
    path = bernoulli_cusum([10] * 10 + [6] * 10, probes=[10] * 20, p0=0.95, p1=0.85)

    assert abs(YEARLY_LIMIT - 5.8999) < 1e-4
    assert path.alarm is not None
    assert path.statistic[path.alarm] >= YEARLY_LIMIT > path.statistic[path.alarm - 1]


@quick
@given(st.lists(st.integers(0, 10), min_size=1, max_size=40))
def test_cusum_rises_with_each_lost_match(matches: list[int]) -> None:
    fewer = [max(0, count - 1) for count in matches]
    settings = {"p0": 0.9, "p1": 0.8}

    good = bernoulli_cusum(matches, probes=[10] * len(matches), **settings)
    bad = bernoulli_cusum(fewer, probes=[10] * len(matches), **settings)

    assert all(low <= high for low, high in zip(good.statistic, bad.statistic, strict=True))


def test_clean_rate_stays_in_its_range() -> None:
    assert clean_rate(100_000, probes=100_000) == 0.995
    assert clean_rate(1, probes=10) == 0.5
    assert 0.93 < clean_rate(950, probes=1000) < 0.95


def test_trend_refuses_what_is_no_drop() -> None:
    with pytest.raises(ValueError, match="not one between"):
        bernoulli_cusum([1], probes=[1], p0=0.8, p1=0.9)
    with pytest.raises(ValueError, match="number of probes"):
        bernoulli_cusum([2], probes=[1], p0=0.9, p1=0.8)
    with pytest.raises(ValueError, match="number of probes"):
        bernoulli_cusum([1, 1], probes=[1], p0=0.9, p1=0.8)
