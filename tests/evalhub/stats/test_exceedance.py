from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.exceedance import (
    absolute_non_inferiority_p,
    ceiling_test,
    exceedance,
    lowest_non_inferiority_p,
    non_inferiority_p,
    order_rank,
    tail_information,
)
from tests.evalhub.stats.make import quick

latencies = st.lists(st.integers(1, 10_000).map(float), min_size=1, max_size=80)


def spread(n: int, *, factor: float = 1.0) -> list[float]:
    """Return n different values whose order statistics are known."""
    return [factor * (1 + index / n) for index in range(n)]


@pytest.mark.parametrize(("n_b", "n_c", "k"), [(20, 20, 6), (40, 25, 3), (59, 59, 9)])
def test_exceedance_agrees_with_counting_arrangements(n_b: int, n_c: int, k: int) -> None:
    """Under equal distributions each way to mix the arms is equally likely: sum the integers."""
    r = order_rank(n_b, 0.95)
    threshold = spread(n_b)[r - 1]
    candidate = [threshold + 1 + index for index in range(k)] + [
        0.5 - index for index in range(n_c - k)
    ]

    test = exceedance(spread(n_b), candidate)

    # j candidates above the r-th baseline value: n_b - r baseline values share that side.
    ways = sum(comb(n_b - r + j, j) * comb(r - 1 + n_c - j, n_c - j) for j in range(k, n_c + 1))
    assert (test.k, test.r, test.ties) == (k, r, False)
    assert test.p_bb == pytest.approx(ways / comb(n_b + n_c, n_c), rel=1e-9)
    assert test.p_fisher == pytest.approx(test.p_bb, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "k", "share"),
    [(20, 6, 0.37), (40, 8, 0.25), (60, 10, 0.20), (100, 13, 0.16), (200, 20, 0.12), (500, 40, 0.09), (1000, 69, 0.08)],
)  # fmt: skip
def test_tail_information_agrees_with_the_table(n: int, k: int, share: float) -> None:
    # From 60 runs on the quantile has nine tenths of alpha: that makes 500 runs need 40, not 39.
    information = tail_information(n, n)

    assert information.k == k
    assert information.share == pytest.approx(share, abs=0.0051)


def test_tail_information_says_when_nothing_could_be_seen() -> None:
    assert tail_information(1, 1) == (None, None)
    with pytest.raises(ValueError, match="no tail"):
        tail_information(0, 20)


def test_exceedance_of_ties_is_conditional() -> None:
    baseline = [10.0] * 94 + [100.0] * 6
    candidate = [10.0] * 94 + [130.0] * 6

    test = exceedance(baseline, candidate)

    # All six of six exceeding runs are the candidate's: 100 C 6 / 200 C 6.
    assert test.ties
    assert test.p_bb is None
    assert test.p_tail == pytest.approx(comb(100, 6) / comb(200, 6))


def test_exceedance_sees_the_slow_cluster_get_slower_from_sixty_runs_on() -> None:
    fast = [0.9 * value for value in spread(190)]
    baseline = [*spread(190), *[2.5 + index / 100 for index in range(10)]]
    candidate = [*fast, *[3.0 + index / 100 for index in range(10)]]

    test = exceedance(baseline, candidate)

    assert (test.k, test.k_b, test.k_max) == (10, 10, 10)
    assert test.p_bb == pytest.approx(0.58, abs=0.03)
    assert test.p_tail < 0.05


def test_exceedance_divides_by_the_design_effect() -> None:
    plain = exceedance(spread(100), spread(100, factor=1.5))
    clustered = exceedance(spread(100), spread(100, factor=1.5), deff=2.0)

    assert (clustered.n_b, clustered.n_c, clustered.r) == (50, 50, 48)
    assert clustered.p_tail > plain.p_tail


@quick
@given(latencies, latencies)
def test_exceedance_is_a_probability(baseline: list[float], candidate: list[float]) -> None:
    test = exceedance(baseline, candidate)

    assert all(0 <= p <= 1 for p in (test.p_tail, test.p_fisher))
    assert 0 <= lowest_non_inferiority_p(test) <= 1


@quick
@given(latencies, latencies)
def test_exceedance_ignores_the_order_of_runs(
    baseline: list[float], candidate: list[float]
) -> None:
    assert exceedance(baseline, candidate) == exceedance(baseline[::-1], sorted(candidate))


@quick
@given(latencies, latencies, st.integers(1, 500))
def test_exceedance_sees_more_when_the_candidate_is_slower(
    baseline: list[float], candidate: list[float], slower: int
) -> None:
    near = exceedance(baseline, candidate)
    far = exceedance(baseline, [value + slower for value in candidate])

    assert far.p_tail <= near.p_tail + 1e-12


def test_non_inferiority_needs_eighty_runs_per_arm() -> None:
    # 80 per arm suffice; 60 need 66 candidates; never fewer than 59 candidates.
    def best(n_b: int, n_c: int) -> float:
        return lowest_non_inferiority_p(exceedance(spread(n_b), spread(n_c)))

    assert best(80, 80) < 0.05
    assert best(60, 65) >= 0.05 > best(60, 66)
    assert best(100_000, 58) >= 0.05 > best(100_000, 59)


def test_non_inferiority_allows_the_tolerance() -> None:
    baseline = spread(200)
    test = exceedance(baseline, baseline)

    assert non_inferiority_p(test, baseline, tolerance=0.5) == pytest.approx(
        lowest_non_inferiority_p(test)
    )
    slower = [1.6 * value for value in baseline]
    shown = non_inferiority_p(exceedance(baseline, slower), slower, tolerance=0.5)
    assert shown is not None
    assert shown > 0.5


def test_non_inferiority_of_negative_values_needs_an_absolute_tolerance() -> None:
    baseline = [value - 10 for value in spread(100)]
    test = exceedance(baseline, baseline)

    assert non_inferiority_p(test, baseline, tolerance=0.5) is None
    assert absolute_non_inferiority_p(test, baseline, tolerance=5.0) == pytest.approx(
        lowest_non_inferiority_p(test)
    )


@pytest.mark.parametrize(("k", "n"), [(4, 20), (7, 60), (10, 100)])
def test_ceiling_breach_can_be_shown_with_few_runs(k: int, n: int) -> None:
    assert ceiling_test(k, n).verdict == "CEILING_BREACH"
    assert ceiling_test(k - 1, n).verdict == "INCONCLUSIVE"


def test_ceiling_safety_needs_fifty_nine_runs() -> None:
    # 1 - 0.95^59 = 0.9515 (Wilks 1941)
    assert ceiling_test(0, 58).verdict == "INCONCLUSIVE"
    assert ceiling_test(0, 59).verdict == "PASS"
    assert ceiling_test(0, 59).p_pass == pytest.approx(1 - 0.9515, abs=5e-5)
    assert ceiling_test(0, 59).p_breach == 1.0


def test_exceedance_keeps_its_size() -> None:
    # 1,500 pairs of equal lognormal arms: s.e. of the rate 0.005.
    rng = np.random.default_rng(20261129)
    rejected = 0
    for _ in range(1500):
        baseline, candidate = rng.lognormal(sigma=0.6, size=(2, 60))
        rejected += exceedance(baseline, candidate).p_tail < 0.05

    assert rejected / 1500 < 0.05


def test_tails_refuse_nothing() -> None:
    with pytest.raises(ValueError, match="no tail"):
        exceedance([], [1.0])
    with pytest.raises(ValueError, match="not a count"):
        ceiling_test(3, 2)
    with pytest.raises(ValueError, match="not a count"):
        ceiling_test(0, 0)
