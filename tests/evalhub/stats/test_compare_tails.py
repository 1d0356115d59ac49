import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.comparison import compare_tails
from evalhub.stats.exceedance import exceedance
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Direction, RunScore, RunStatus, Sampling
from tests.evalhub.stats.make import make_runs, make_tail, quick


def spread(n: int, *, factor: float = 1.0) -> list[float]:
    return [factor * (1 + index / n) for index in range(n)]


def test_a_slower_tail_is_a_regression() -> None:
    result = compare_tails(
        make_runs(spread(60)), make_runs(spread(60, factor=2.0)), rubric=make_tail()
    )

    assert (result.verdict, result.regression) == (Verdict.REGRESSION, True)
    assert result.p == pytest.approx(exceedance(spread(60), spread(60, factor=2.0)).p_tail)
    assert result.quantile_candidate == pytest.approx(2 * (result.quantile_baseline or 0.0))


def test_a_significant_but_small_growth_is_no_regression() -> None:
    slower = compare_tails(
        make_runs(spread(60)), make_runs(spread(60, factor=1.15)), rubric=make_tail()
    )
    absolute = compare_tails(
        make_runs(spread(60)), make_runs(spread(60, factor=2.0)), rubric=make_tail(abs_tol=5.0)
    )

    assert slower.p is not None
    assert slower.p < 0.05
    assert (slower.verdict, absolute.verdict) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)


def test_the_same_tail_passes_only_with_enough_runs() -> None:
    enough = compare_tails(
        make_runs(spread(200)), make_runs(spread(200)), rubric=make_tail(ceiling=5.0)
    )
    few = compare_tails(make_runs(spread(40)), make_runs(spread(40)), rubric=make_tail())
    close = compare_tails(
        make_runs(spread(200)), make_runs(spread(200, factor=1.6)), rubric=make_tail(rel_tol=0.7)
    )

    assert (enough.verdict, enough.safety_shown, enough.left_out) == (Verdict.PASS, True, False)
    assert few.reasons == (Reason.SAFETY_NOT_SHOWN, Reason.UNDERPOWERED)
    assert (few.left_out, few.safety_shown) == (True, False)
    assert close.reasons == (Reason.SAFETY_NOT_SHOWN, Reason.BORDERLINE)
    assert few.information is not None
    assert few.information.k == 8


def test_a_policy_may_require_non_inferiority() -> None:
    result = compare_tails(
        make_runs(spread(40)), make_runs(spread(40)), rubric=make_tail(require_non_inferiority=True)
    )

    assert not result.left_out


def test_fewer_than_twenty_runs_have_no_tail() -> None:
    result = compare_tails(
        make_runs(spread(19)), make_runs(spread(40, factor=3.0)), rubric=make_tail(ceiling=2.0)
    )

    assert (result.verdict, result.p, result.test) == (Verdict.INCONCLUSIVE, None, None)
    assert result.reasons == (Reason.TAIL_N, Reason.CEILING_BREACH)
    assert (result.breach, result.left_out) == (True, False)


def test_the_ceiling_needs_no_baseline() -> None:
    over = compare_tails(None, make_runs([1.0] * 16 + [9.0] * 4), rubric=make_tail(ceiling=5.0))
    under = compare_tails(None, make_runs([1.0] * 59), rubric=make_tail(ceiling=5.0))
    empty = compare_tails(None, [], rubric=make_tail(ceiling=5.0))

    assert over.reasons == (Reason.NO_BASELINE, Reason.CEILING_BREACH)
    assert over.breach
    assert under.ceiling is not None
    assert (under.ceiling.verdict, under.verdict) == ("PASS", Verdict.INCONCLUSIVE)
    assert not under.safety_shown
    assert (empty.ceiling, empty.quantile_candidate) == (None, None)
    assert empty.reasons == (Reason.NO_BASELINE, Reason.NOT_JUDGED)


def test_a_judge_that_changed_leaves_nothing_to_compare() -> None:
    lost = [run._replace(status=RunStatus.NOT_COMPARABLE) for run in make_runs(spread(30))]

    result = compare_tails(make_runs(spread(30)), lost, rubric=make_tail())

    assert result.reasons == (Reason.JUDGE_CHANGED,)


def test_missing_runs_cap_a_pass_and_keep_the_rubric_in_the_fold() -> None:
    gaps: list[float | None] = [None] * 20

    capped = compare_tails(
        make_runs(spread(200)), make_runs([*gaps, *spread(200)[20:]]), rubric=make_tail()
    )
    unsure = compare_tails(
        make_runs(spread(40)), make_runs([*gaps[:10], *spread(40)[10:]]), rubric=make_tail()
    )

    assert (capped.verdict, capped.reasons) == (Verdict.INCONCLUSIVE, (Reason.MISSING,))
    assert unsure.reasons[0] is Reason.MISSING
    assert not unsure.left_out


def test_only_shared_scenarios_of_a_fixed_suite_are_compared() -> None:
    slow_extra = make_runs([50.0] * 60, prefix="slow")
    baseline = make_runs(spread(100))

    result = compare_tails(baseline, [*make_runs(spread(100)), *slow_extra], rubric=make_tail())
    apart = compare_tails(baseline, slow_extra, rubric=make_tail())

    assert result.test is not None
    assert (result.test.k_max, result.test.n_c) == (0, 100)
    assert (result.verdict, result.reasons) == (Verdict.INCONCLUSIVE, (Reason.SUITE_CHANGED,))
    assert apart.reasons == (Reason.SUITE_MISMATCH,)


def test_one_scenario_run_often_is_a_suite_of_its_own() -> None:
    runs = make_runs([spread(100)])

    assert compare_tails(runs, runs, rubric=make_tail()).verdict is Verdict.PASS


def test_scenarios_drawn_anew_count_as_fewer_runs() -> None:
    def arm(prefix: str, factor: float) -> list[RunScore]:
        return make_runs([[value] * 4 for value in spread(50, factor=factor)], prefix=prefix)

    rubric = make_tail(scenario_sampling=Sampling.RANDOM_DRAW)
    drawn = compare_tails(arm("a", 1.0), arm("b", 1.0), rubric=rubric)
    few = compare_tails(arm("a", 1.0)[:60], arm("b", 1.0), rubric=rubric)
    one = compare_tails(make_runs([spread(60)]), arm("b", 1.0), rubric=rubric)

    assert drawn.test is not None
    assert drawn.test.deff == pytest.approx(4.0)
    assert (drawn.test.n_b, drawn.test.n_c) == (50, 50)
    assert few.reasons == (Reason.TAIL_N,)
    assert one.reasons == (Reason.TAIL_N,)


def test_higher_is_better_has_its_tail_below() -> None:
    rubric = make_tail(direction=Direction.HIGHER_IS_BETTER, ceiling=0.5, abs_tol=0.1)
    fast = [10 + value for value in spread(100)]

    worse = compare_tails(make_runs(fast), make_runs([value / 50 for value in fast]), rubric=rubric)
    same = compare_tails(make_runs(fast), make_runs(fast), rubric=rubric)
    better = compare_tails(make_runs(fast), make_runs([2 * value for value in fast]), rubric=rubric)

    assert (worse.verdict, worse.breach) == (Verdict.REGRESSION, True)
    assert worse.quantile_baseline == pytest.approx(11.05, abs=0.01)
    assert (same.regression, same.breach) == (False, False)
    assert (better.verdict, better.safety_shown) == (Verdict.PASS, True)


times = st.lists(st.one_of(st.none(), st.floats(), st.integers(0, 5).map(float)), max_size=50)


@quick
@given(times, times)
def test_no_input_makes_a_tail_without_a_number(
    before: list[float | None], after: list[float | None]
) -> None:
    result = compare_tails(make_runs(before), make_runs(after), rubric=make_tail(ceiling=3.0))

    numbers = [result.p, result.p_non_inferior, result.quantile_baseline, result.quantile_candidate]
    assert all(-1e101 < value < 1e101 for value in numbers if value is not None)
    assert result.verdict is not Verdict.IMPROVEMENT


@quick
@given(st.lists(st.floats(0, 100), min_size=20, max_size=60), st.randoms())
def test_order_of_runs_changes_no_tail(values: list[float], mix: random.Random) -> None:
    runs = make_runs(values)
    mixed = runs[:]
    mix.shuffle(mixed)

    rubric = make_tail(ceiling=50.0)
    assert compare_tails(mixed, runs, rubric=rubric) == compare_tails(runs, mixed, rubric=rubric)
