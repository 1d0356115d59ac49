import pytest

from evalhub.stats import power


def test_power_agrees_with_r_pwr() -> None:
    # R package pwr: pwr.t.test(d = 1, n = 30) 0.9677083; pwr.t.test(d = .2, n = 20,
    # type = "paired") 0.1359563; pwr.2p.test(h = .01, n = 80, alternative = "greater") 0.05686953
    assert power.power_t_two_sample(1, n=30) == pytest.approx(0.9677083, abs=5e-8)
    assert power.power_t_paired(0.2, n=20) == pytest.approx(0.1359563, abs=5e-8)
    assert power.power_rates_arcsine(0.01, n=80, alternative="greater") == pytest.approx(
        0.05686953, abs=5e-9
    )


def test_power_has_two_directions() -> None:
    up = power.power_rates_arcsine(0.3, n=80, alternative="greater")

    assert power.power_rates_arcsine(-0.3, n=80, alternative="less") == pytest.approx(up)
    assert power.power_rates_arcsine(0.0, n=80) == pytest.approx(0.05)
    assert power.power_t_paired(0.5, n=20, sides=1) > power.power_t_paired(0.5, n=20, sides=2)


def test_power_survives_effects_that_scipy_does_not() -> None:
    assert power.power_t_paired(1000.0, n=400) == pytest.approx(1.0)
    assert power.power_t_two_sample(0.0, n=30) == pytest.approx(0.05)


@pytest.mark.parametrize(("df", "ratio"), [(1, 0.862), (3, 0.978), (9, 0.999)])
def test_closed_form_is_close_to_the_exact_root(df: int, ratio: float) -> None:
    exact = power.mde_paired_exact(n=df + 1, sd=1.0)
    closed = power.mde_t(se=1 / (df + 1) ** 0.5, df=df)

    assert closed / exact == pytest.approx(ratio, abs=6e-4)


def test_planning_agrees_with_the_design_guide() -> None:
    # Differences with sd .15, floor .05: 73 scenarios for 80 % power, 97 for 90 %.
    assert power.power_t_paired(1 / 3, n=72) < 0.80 <= power.power_t_paired(1 / 3, n=73)
    assert power.power_t_paired(1 / 3, n=96) < 0.90 <= power.power_t_paired(1 / 3, n=97)
    # Pass rate .9: 566 runs per arm for five points, 142 for ten.
    for floor, runs in ((0.05, 566), (0.10, 142)):
        mde = power.mde_rates(0.9, 100, 100)
        assert power.scenarios_required(100, mde=mde, floor=floor) == runs


def test_scenarios_required_gives_up_where_no_suite_could_do() -> None:
    assert power.scenarios_required(10, mde=1.0, floor=1e-300) is None
    assert power.scenarios_required(25, mde=0.05, floor=0.05) == 25


def test_power_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        power.power_t_paired(1.0, n=1)
    with pytest.raises(ValueError, match="sides"):
        power.power_t_two_sample(1.0, n=10, sides=3)
    with pytest.raises(ValueError, match="two-sided, greater or less"):
        power.power_rates_arcsine(0.1, n=10, alternative="both")
    with pytest.raises(ValueError, match="smallest visible"):
        power.mde_paired_exact(n=1, sd=1.0)
    with pytest.raises(ValueError, match="power to speak of"):
        power.mde_rates(1.5, 10, 10)
