import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.paired import BatchNoise, batch_noise, paired_t
from evalhub.stats.welch import Edge, equivalence
from tests.evalhub.stats.make import quick
from tests.evalhub.stats.test_welch import SLEEP_FIRST, SLEEP_SECOND

CLINIC_FIRST = [
    2.6,
    2.82,
    2.18,
    3.46,
    4.01,
    3.04,
    3.47,
    4.06,
    2.91,
    3.59,
    4.51,
    3.16,
    3.86,
    3.31,
    3.02,
]
CLINIC_SECOND = [
    2.84,
    2.51,
    2.41,
    2.95,
    3.14,
    3.79,
    4.14,
    3.85,
    3.02,
    3.45,
    5.37,
    3.81,
    4.19,
    3.16,
    3.84,
]


def test_paired_t_agrees_with_r_on_sleep() -> None:
    # R: t.test(paired = TRUE) on sleep: t = -4.0621, df = 9, p = 0.002833, CI -2.4598858 -0.7001142
    test = paired_t(SLEEP_SECOND, SLEEP_FIRST)

    assert test.t == pytest.approx(-4.0621, abs=5e-5)
    assert test.df == 9
    assert test.p == pytest.approx(0.002833, abs=5e-7)
    assert test.ci95 == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)


def test_paired_equivalence_agrees_with_r_tost() -> None:
    # R package equivalence, tost(paired = TRUE) on the clinic data: p = 0.003166881489265175
    test = paired_t(CLINIC_FIRST, CLINIC_SECOND)
    assert test.delta is not None
    assert test.se is not None
    assert test.df is not None

    result = equivalence(test.delta, se=test.se, df=test.df, margin=0.6)

    assert result.p == pytest.approx(0.003166881489265175, rel=1e-9)


def test_paired_t_of_a_constant_shift_turns_signs() -> None:
    test = paired_t([0.5, 0.6, 0.7], [0.4, 0.5, 0.6])

    assert (test.t, test.df, test.p, test.edge) == (None, 2, 0.25, Edge.ZERO_VARIANCE_SHIFT)


def test_paired_t_of_large_numbers_sees_a_constant_shift() -> None:
    before = [1e6 + 0.1 * index for index in range(8)]

    test = paired_t(before, [value - 0.3 for value in before])

    assert (test.t, test.edge) == (None, Edge.ZERO_VARIANCE_SHIFT)


def test_paired_t_of_equal_arms_has_p_one() -> None:
    test = paired_t([0.5, 0.6], [0.5, 0.6])

    assert (test.p, test.edge) == (1.0, Edge.ZERO_VARIANCE_EQUAL)


def test_paired_t_needs_two_pairs() -> None:
    assert paired_t([], []).edge is Edge.N_LT_2
    assert paired_t([0.5], [0.4]).edge is Edge.N_LT_2
    with pytest.raises(ValueError, match="one length"):
        paired_t([0.5], [0.4, 0.3])


@quick
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=30))
def test_paired_t_changes_sign_with_the_arms(pairs: list[tuple[int, int]]) -> None:
    first, second = [float(b) for b, _ in pairs], [float(c) for _, c in pairs]

    forward, backward = paired_t(first, second), paired_t(second, first)

    assert forward.p == pytest.approx(backward.p)
    assert forward.delta == pytest.approx(-(backward.delta or 0.0))


def test_batch_noise_finds_what_whole_runs_share() -> None:
    # Additive table: the residual is 0, so the variance of the run means is all batch noise.
    shared = np.array([0.02, -0.01, 0.03, 0.0, -0.04])
    table = shared[:, None] + np.linspace(0.2, 0.9, 12)[None, :]

    noise = batch_noise(table)

    assert noise is not None
    assert noise.batches == 5
    assert noise.variance == pytest.approx(np.var(shared, ddof=1))
    assert noise.of_difference == pytest.approx(1.2 * np.var(shared, ddof=1))


def test_batch_noise_is_zero_where_scenarios_explain_it() -> None:
    table = np.array([[0.0, 1.0], [1.0, 0.0]] * 3)

    noise = batch_noise(table)

    assert noise is not None
    assert noise.variance == 0.0


def test_batch_noise_widens_the_test_and_takes_its_freedom() -> None:
    noise = BatchNoise(variance=0.25, batches=6)

    test = paired_t(SLEEP_SECOND, SLEEP_FIRST, noise=noise)
    plain = paired_t(SLEEP_SECOND, SLEEP_FIRST, noise=BatchNoise(variance=0.0, batches=6))

    assert plain == paired_t(SLEEP_SECOND, SLEEP_FIRST)
    assert plain.se is not None
    assert test.se is not None
    assert test.se**2 == pytest.approx(plain.se**2 + 0.25 * (1 + 1 / 6))
    assert test.df == 5


def test_batch_noise_needs_five_runs_without_gaps() -> None:
    assert batch_noise(np.zeros((4, 10))) is None
    assert batch_noise(np.zeros((5, 1))) is None
    with pytest.raises(ValueError, match="gaps"):
        batch_noise(np.full((5, 3), np.nan))
