import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.rubric import Direction, RunScore, RunStatus, Scale
from evalhub.stats.scores import Unit, baseline_noise, mean_arm, tail_arm
from tests.evalhub.stats.make import make_binary, make_continuous, make_plain_runs, make_runs, quick


def test_all_runs_of_a_scenario_count_whatever_their_attempt() -> None:
    runs = [RunScore("a", "d", 1, 0.2), RunScore("a", "d", 1, 0.4), RunScore("a", "d", 2, 0.9)]

    arm = mean_arm(runs, rubric=make_continuous())

    assert arm.means == {Unit("a", "d"): 0.5}


def test_a_changed_digest_is_another_scenario() -> None:
    runs = [RunScore("a", "old", 1, 0.2), RunScore("a", "new", 1, 0.4)]

    assert list(mean_arm(runs, rubric=make_continuous()).means.values()) == [0.4, 0.2]


def test_a_crash_of_the_agent_is_the_worst_outcome() -> None:
    crash = [RunScore("a", "d", 1, None, RunStatus.AGENT_ERROR)]
    lower = Direction.LOWER_IS_BETTER

    assert list(mean_arm(crash, rubric=make_binary()).means.values()) == [0.0]
    ten = make_continuous(scale=Scale(1, 10))
    assert list(mean_arm(crash, rubric=ten).means.values()) == [1.0]
    costly = make_continuous(scale=Scale(1, 10), direction=lower)
    assert list(mean_arm(crash, rubric=costly).means.values()) == [-10.0]
    unscaled = mean_arm(crash, rubric=make_continuous(scale=None))
    assert (unscaled.measured, unscaled.agent_errors, unscaled.missing_runs) == (0, 1, 1)


def test_what_was_not_measured_is_missing_and_counted() -> None:
    runs = [
        RunScore("a", "d", 1, 0.5),
        RunScore("a", "d", 2, 0.9, RunStatus.INFRA_ERROR),
        RunScore("a", "d", 3, float("nan")),
        RunScore("a", "d", 4, float("-inf")),
        RunScore("a", "d", 5, 1.5),
        RunScore("b", "d", 1, None, RunStatus.NOT_COMPARABLE),
    ]

    arm = mean_arm(runs, rubric=make_continuous())

    assert (arm.runs, arm.measured, arm.missing_runs) == (6, 1, 5)
    assert (arm.out_of_scale, arm.not_comparable) == (1, 1)
    assert arm.units == (Unit("a", "d"), Unit("b", "d"))
    assert arm.values == ((0.5,), ())


def test_a_violation_counts_as_a_failure() -> None:
    rubric = make_binary(direction=Direction.LOWER_IS_BETTER)

    assert list(mean_arm(make_runs([1.0, 0.0]), rubric=rubric).means.values()) == [0.0, 1.0]


def test_filled_arms_replace_missing_runs_only() -> None:
    arm = mean_arm(make_runs([[0.5, None], [None, None]]), rubric=make_continuous())

    assert arm.filled(1.0).values == ((0.5, 1.0), (1.0, 1.0))
    assert arm.filled(1.0).missing_runs == 0


def test_runs_without_ids_stand_for_themselves() -> None:
    arm = mean_arm(make_plain_runs([0.3, 0.3, 0.5]), rubric=make_continuous())

    assert not arm.has_ids
    assert len(arm.means) == 3


def test_a_tail_keeps_the_time_that_a_crash_took() -> None:
    runs = [
        RunScore("a", "d", 1, 9.0, RunStatus.AGENT_ERROR),
        RunScore("a", "d", 2, 3.0, RunStatus.INFRA_ERROR),
        RunScore("a", "d", 3, None, RunStatus.AGENT_ERROR),
    ]

    arm = tail_arm(runs, sign=1)

    assert arm.sorted_values.tolist() == [9.0]
    assert arm.missing_runs == 2


@quick
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=40), st.randoms())
def test_order_of_runs_changes_no_digit(rows: list[tuple[str, float]], mix: random.Random) -> None:
    runs = [RunScore(name, "d", 1, value) for name, value in rows]
    mixed = runs[:]
    mix.shuffle(mixed)

    rubric = make_continuous()
    assert mean_arm(runs, rubric=rubric).means == mean_arm(mixed, rubric=rubric).means


def test_baseline_noise_needs_five_named_whole_runs() -> None:
    def night(name: str, shift: float, scenarios: int = 6) -> list[RunScore]:
        return [
            RunScore(f"s{index}", "d", 1, 0.1 * index + shift, batch=name)
            for index in range(scenarios)
        ]

    shifts = {"mon": 0.0, "tue": 0.02, "wed": 0.04, "thu": 0.01, "fri": 0.03}
    nights = [run for name, shift in shifts.items() for run in night(name, shift)]
    rubric = make_continuous()

    noise = baseline_noise([*nights, RunScore("s1", "d", 1, 0.5)], rubric=rubric)

    assert noise is not None
    assert noise.variance == pytest.approx(0.00025)
    assert baseline_noise(nights[:24], rubric=rubric) is None
    elsewhere = [RunScore("other", "d", 1, 0.5, batch="sat")]
    assert baseline_noise(nights + elsewhere, rubric=rubric) is None
