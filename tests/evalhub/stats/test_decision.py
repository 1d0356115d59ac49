import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.decision import Decision, decide
from evalhub.stats.reasons import Reason, Verdict, may_be_neutral
from tests.evalhub.stats.make import quick


def ruled(delta: float, *, p: float, lower: float | None, mde: float | None = 0.03) -> Decision:
    return decide(delta=delta, p=p, lower95=lower, mde80=mde, floor=0.05, ni_margin=0.05)


def test_regression_needs_significance_and_the_floor() -> None:
    assert ruled(-0.08, p=0.001, lower=-0.1).verdict is Verdict.REGRESSION
    assert ruled(-0.08, p=0.06, lower=-0.1).verdict is Verdict.INCONCLUSIVE
    assert ruled(-0.04, p=0.001, lower=-0.06) == (Verdict.INCONCLUSIVE, (Reason.BORDERLINE,))


def test_floor_is_met_in_spite_of_rounding() -> None:
    delta = 45 / 50 - 50 / 50
    assert delta > -0.10

    result = decide(delta=delta, p=0.02, lower95=-0.2, mde80=0.1, floor=0.10, ni_margin=0.10)

    assert result.verdict is Verdict.REGRESSION


def test_improvement_mirrors_regression_unless_forbidden() -> None:
    assert ruled(0.08, p=0.001, lower=0.05).verdict is Verdict.IMPROVEMENT
    held = decide(
        delta=0.08, p=0.001, lower95=0.05, mde80=0.1, floor=0.05, ni_margin=0.05, may_improve=False
    )
    assert held == (Verdict.PASS, ())


def test_small_significant_effect_passes_with_a_flag() -> None:
    assert ruled(-0.02, p=0.001, lower=-0.03) == (Verdict.PASS, (Reason.BELOW_FLOOR_EFFECT,))
    assert ruled(0.0, p=0.9, lower=-0.03) == (Verdict.PASS, ())


def test_inconclusive_says_whether_more_data_would_help() -> None:
    assert ruled(0.0, p=0.9, lower=-0.09, mde=0.08).reasons == (Reason.UNDERPOWERED,)
    assert ruled(0.0, p=0.9, lower=-0.09, mde=None).reasons == (Reason.UNDERPOWERED,)
    assert ruled(0.0, p=0.9, lower=None, mde=0.02).reasons == (Reason.BORDERLINE,)


@quick
@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_a_larger_floor_never_makes_a_regression(delta: float, p: float, lower_gap: float) -> None:
    def verdict(floor: float) -> Verdict:
        return decide(
            delta=delta, p=p, lower95=delta - lower_gap, mde80=0.1, floor=floor, ni_margin=floor
        ).verdict

    if verdict(0.2) is Verdict.REGRESSION:
        assert verdict(0.1) is Verdict.REGRESSION


@pytest.mark.parametrize("reason", [Reason.MISSING, Reason.SUITE_CHANGED, Reason.N_LT_2])
def test_evidence_reasons_are_never_neutral(reason: Reason) -> None:
    assert not may_be_neutral((reason, Reason.UNDERPOWERED))
    assert may_be_neutral((Reason.BORDERLINE, Reason.BATCH_UNKNOWN))
