import pytest

from evalhub.stats.absolute import FloorVerdict, mean_floor, rate_floor


def test_mean_floor_is_never_decided_by_the_mean_alone() -> None:
    means = [0.4, 0.5, 0.6, 0.3, 0.7]

    assert mean_floor(means, floor=0.55).verdict is FloorVerdict.INCONCLUSIVE
    assert mean_floor(means, floor=0.75).verdict is FloorVerdict.BELOW_FLOOR
    assert mean_floor(means, floor=0.30).verdict is FloorVerdict.ABOVE


def test_mean_floor_bounds_are_one_sided_t() -> None:
    # n = 5, mean .5, sd .1581, t_.95,4 = 2.132 (any t table): half width .1507
    bounds = mean_floor([0.4, 0.5, 0.6, 0.3, 0.7], floor=0.5)

    assert bounds.lower95 == pytest.approx(0.5 - 0.1507, abs=1e-4)
    assert bounds.upper95 == pytest.approx(0.5 + 0.1507, abs=1e-4)


def test_mean_floor_takes_five_equal_values_at_their_word() -> None:
    assert mean_floor([0.2] * 5, floor=0.5).verdict is FloorVerdict.BELOW_FLOOR
    assert mean_floor([0.2] * 4, floor=0.5).verdict is FloorVerdict.INCONCLUSIVE
    assert mean_floor([0.2], floor=0.5).verdict is FloorVerdict.INCONCLUSIVE


def test_rate_floor_uses_wilson_on_effective_runs() -> None:
    single = rate_floor([1.0] * 30 + [0.0] * 10, runs=[1] * 40, floor=0.9)
    clustered = rate_floor([5.0] * 30 + [0.0] * 10, runs=[5] * 40, floor=0.9)

    assert single.verdict is FloorVerdict.BELOW_FLOOR
    # Five equal runs per scenario say about what one does.
    assert clustered.upper95 == pytest.approx(single.upper95, abs=0.01)
    assert rate_floor([1.0], runs=[1], floor=0.9).verdict is FloorVerdict.INCONCLUSIVE
