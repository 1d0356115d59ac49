from math import isfinite, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.welch import (
    Edge,
    Summary,
    equivalence,
    summary,
    usable,
    welch,
    welch_from_summaries,
)
from tests.evalhub.stats.make import quick

# Student (1908), as datasets::sleep in R: extra hours of sleep with two drugs.
SLEEP_FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

samples = st.lists(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6)),
    min_size=2,
    max_size=30,
)


def test_welch_agrees_with_r_on_sleep() -> None:
    # R documentation of t.test: t = -1.8608, df = 17.776, p = 0.07939, CI -3.3654832 0.2054832
    test = welch(SLEEP_SECOND, SLEEP_FIRST)

    assert test.t == pytest.approx(-1.8608, abs=5e-5)
    assert test.df == pytest.approx(17.776, abs=5e-4)
    assert test.p == pytest.approx(0.07939, abs=5e-6)
    assert test.ci95 == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)


def test_welch_from_summaries_agrees_with_nist_auto83b() -> None:
    # NIST/SEMATECH e-Handbook 7.3.1: US 249 cars, Japan 79 cars; Boost.Math prints
    # T = -12.946, df = 136.87, one-sided 7.855e-26 for these summaries.
    test = welch_from_summaries(
        Summary(n=79, mean=30.48101, sd=6.10771), Summary(n=249, mean=20.14458, sd=6.41470)
    )

    assert test.t == pytest.approx(-12.946, abs=5e-4)
    assert test.df == pytest.approx(136.87, abs=5e-3)
    assert test.p == pytest.approx(2 * 7.855e-26, rel=1e-3)


def test_summary_keeps_the_digits_of_nist_numacc4() -> None:
    # NIST StRD NumAcc4, certified: mean 10000000.2, standard deviation 0.1
    values = [10000000.2] + [10000000.1, 10000000.3] * 500

    assert summary(values).mean == pytest.approx(10000000.2, abs=1e-7)
    assert summary(values).sd == pytest.approx(0.1, rel=1e-7)


def test_equivalence_agrees_with_r_tost() -> None:
    # R package equivalence, tost() on the clinic data, epsilon .6: p = 0.4317936812594803
    first = [
        3.76,
        3.66,
        3.65,
        3.6,
        3.48,
        2.87,
        3.24,
        3.92,
        3.99,
        4.21,
        4.21,
        3.31,
        3.61,
        2.97,
        2.73,
    ]
    second = [
        4.0,
        3.26,
        4.14,
        3.42,
        3.25,
        4.34,
        4.97,
        4.31,
        3.11,
        3.41,
        5.02,
        4.21,
        4.59,
        5.3,
        4.32,
    ]
    test = welch(first, second)
    assert test.delta is not None
    assert test.se is not None
    assert test.df is not None

    result = equivalence(test.delta, se=test.se, df=test.df, margin=0.6)

    assert result.p == pytest.approx(0.4317936812594803, rel=1e-9)


@pytest.mark.parametrize("arms", [([], []), ([0.9], [0.1, 0.2, 0.3]), ([0.1, 0.2], [0.3])])
def test_welch_has_no_p_for_a_single_scenario(arms: tuple[list[float], list[float]]) -> None:
    test = welch(*arms)

    assert (test.p, test.ci95, test.edge) == (None, None, Edge.N_LT_2)


def test_welch_of_equal_constants_is_certain_of_nothing_else() -> None:
    test = welch([0.8] * 6, [0.8] * 7)

    assert (test.delta, test.t, test.p, test.edge) == (0.0, None, 1.0, Edge.ZERO_VARIANCE_EQUAL)


def test_welch_of_different_constants_permutes() -> None:
    test = welch([1.0] * 5, [0.8] * 5)

    assert test.p == pytest.approx(2 / 252)
    assert test.edge is Edge.ZERO_VARIANCE_SEPARATED


def test_welch_of_many_different_constants_stays_fast() -> None:
    test = welch([1.0] * 3000, [0.5] * 3000)

    assert (test.p, test.edge) == (0.0, Edge.ZERO_VARIANCE_SEPARATED)


def test_welch_with_one_constant_arm_has_the_other_arms_freedom() -> None:
    test = welch([1.0] * 6, [1.0, 1.0, 0.9, 1.0, 0.8, 1.0])

    assert test.df == pytest.approx(5.0)


@quick
@given(samples, samples)
def test_welch_changes_sign_with_the_arms(first: list[float], second: list[float]) -> None:
    forward, backward = welch(first, second), welch(second, first)

    assert forward.p == pytest.approx(backward.p, rel=1e-9)
    assert forward.delta == pytest.approx(-(backward.delta or 0.0), abs=1e-9)


@quick
@given(samples, samples)
def test_welch_is_always_finite(first: list[float], second: list[float]) -> None:
    test = welch(first, second)

    numbers = [test.delta, test.se, test.df, test.t, test.p, *(test.ci95 or ()), *(test.ci90 or ())]
    assert all(isfinite(value) for value in numbers if value is not None)
    assert test.p is not None
    assert 0 <= test.p <= 1


@quick
@given(samples, st.floats(0.001, 1e3))
def test_welch_sees_more_when_the_shift_grows(values: list[float], shift: float) -> None:
    near = welch(values, [value - shift for value in values])
    far = welch(values, [value - 2 * shift for value in values])

    assert near.p is not None
    assert far.p is not None
    assert far.p <= near.p + 1e-9


def test_summary_refuses_nothing_and_nonsense() -> None:
    with pytest.raises(ValueError, match="no mean"):
        summary([])
    with pytest.raises(ValueError, match="not a finite number"):
        summary([0.1, float("nan")])
    assert summary([0.3]) == Summary(1, 0.3, 0.0)


def test_usable_drops_what_is_no_number() -> None:
    assert usable([0.9, None, float("nan"), float("inf"), 0.8]) == [0.9, 0.8]


def test_welch_agrees_with_its_textbook_formula() -> None:
    first, second = summary(SLEEP_SECOND), summary(SLEEP_FIRST)
    a, c = first.sd**2 / first.n, second.sd**2 / second.n

    test = welch_from_summaries(first, second)

    assert test.se == pytest.approx(sqrt(a + c))
    assert test.df == pytest.approx((a + c) ** 2 / (a**2 / 9 + c**2 / 9))
