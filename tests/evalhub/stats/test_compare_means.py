import random
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.absolute import FloorVerdict
from evalhub.stats.binary import mcnemar, newcombe_interval, rao_scott_z
from evalhub.stats.comparison import MeanComparison, compare_means
from evalhub.stats.paired import paired_t
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Design, Direction, RunScore, RunStatus, Sampling, Scale
from tests.evalhub.stats.make import make_binary, make_continuous, make_plain_runs, make_runs, quick
from tests.evalhub.stats.test_welch import SLEEP_FIRST, SLEEP_SECOND

pytestmark = pytest.mark.slow

BASELINE = [0.5 + 0.02 * index for index in range(20)]
WOBBLE = [0.01 * (-1) ** index * (1 + index % 3) for index in range(20)]


def shifted(drop: float) -> list[float]:
    return [value - drop + noise for value, noise in zip(BASELINE, WOBBLE, strict=True)]


def compared(drop: float, **changes: object) -> MeanComparison:
    return compare_means(
        make_runs(BASELINE), make_runs(shifted(drop)), rubric=make_continuous(**changes)
    )


def test_one_fixed_suite_is_paired() -> None:
    result = compared(0.1)
    direct = paired_t(BASELINE, shifted(0.1))

    assert (result.verdict, result.decided_by) == (Verdict.REGRESSION, Design.PAIRED)
    assert (result.n_baseline, result.n_candidate, result.n_pairs) == (20, 20, 20)
    assert (result.delta, result.se, result.df, result.p) == pytest.approx(
        (direct.delta, direct.se, direct.df, direct.p)
    )
    assert result.lower95 == pytest.approx(direct.ci90.low if direct.ci90 else None)
    assert result.mean_baseline == pytest.approx(0.69)
    assert result.unpaired.test == "welch"
    assert result.unpaired.p is not None
    assert result.p is not None
    assert result.unpaired.p > result.p


@pytest.mark.parametrize(
    ("drop", "verdict"),
    [(0.10, Verdict.REGRESSION), (0.0, Verdict.PASS), (-0.10, Verdict.IMPROVEMENT)],
)
def test_verdicts_follow_the_shift(drop: float, verdict: Verdict) -> None:
    assert compared(drop).verdict is verdict


def test_design_unpaired_is_the_textbook_welch() -> None:
    rubric = make_continuous(scale=None, min_effect=0.5)

    result = compare_means(
        make_plain_runs(SLEEP_SECOND), make_plain_runs(SLEEP_FIRST), rubric=rubric
    )

    # R documentation of t.test on sleep: p = 0.07939
    assert (result.decided_by, result.paired) == (Design.UNPAIRED, None)
    assert result.p == pytest.approx(0.07939, abs=5e-6)
    assert result.reasons[0] is Reason.UNDERPOWERED
    asked = compared(0.1, design=Design.UNPAIRED)
    assert (asked.decided_by, asked.p) == (Design.UNPAIRED, asked.unpaired.p)


def test_scenarios_drawn_anew_are_unpaired() -> None:
    baseline, candidate = make_runs(BASELINE), make_runs(shifted(0.1), prefix="other")

    drawn = compare_means(
        baseline, candidate, rubric=make_continuous(scenario_sampling=Sampling.RANDOM_DRAW)
    )
    fixed = compare_means(baseline, candidate, rubric=make_continuous())

    assert drawn.decided_by is Design.UNPAIRED
    assert (fixed.verdict, fixed.decided_by, fixed.delta) == (Verdict.INCONCLUSIVE, None, None)
    assert fixed.reasons[0] is Reason.SUITE_MISMATCH
    assert len(fixed.added) == len(fixed.removed) == 20


def test_lower_is_better_turns_the_effect_but_not_the_means() -> None:
    result = compared(0.1, direction=Direction.LOWER_IS_BETTER)

    assert result.verdict is Verdict.IMPROVEMENT
    assert result.delta is not None
    assert result.delta > 0
    assert result.mean_baseline == pytest.approx(0.69)
    assert result.mean_candidate == pytest.approx(0.69 - result.delta)


def test_epochs_are_averaged_and_never_count_as_scenarios() -> None:
    once = compared(0.1)
    thrice = compare_means(
        make_runs([[value] * 3 for value in BASELINE]),
        make_runs([[value] * 3 for value in shifted(0.1)]),
        rubric=make_continuous(),
    )

    assert (thrice.runs_baseline, thrice.n_pairs) == (60, 20)
    assert thrice.p == pytest.approx(once.p)


def test_a_changed_suite_caps_a_pass_but_not_a_regression() -> None:
    baseline = make_runs(BASELINE)
    added = make_runs([0.5] * 10, prefix="new")

    same = compare_means(baseline, [*make_runs(shifted(0.0)), *added], rubric=make_continuous())
    worse = compare_means(baseline, [*make_runs(shifted(0.1)), *added], rubric=make_continuous())

    assert (same.verdict, same.reasons[0]) == (Verdict.INCONCLUSIVE, Reason.SUITE_CHANGED)
    assert (worse.verdict, worse.reasons[0]) == (Verdict.REGRESSION, Reason.SUITE_CHANGED)
    assert same.added == tuple(f"new-{index:04d}" for index in range(10))


def test_a_changed_digest_is_not_paired() -> None:
    changed = make_runs(shifted(0.0)[:2], digest="sha256:two")

    result = compare_means(
        make_runs(BASELINE), [*changed, *make_runs(shifted(0.0))[2:]], rubric=make_continuous()
    )

    assert result.n_pairs == 18
    assert result.changed == ("scenario-0000", "scenario-0001")
    assert (result.added, result.removed) == ((), ())


def test_few_scenarios_are_noted_and_one_is_refused() -> None:
    plain = compare_means(
        make_plain_runs([0.9, 0.8, 0.85]),
        make_plain_runs([0.1, 0.2, 0.3]),
        rubric=make_continuous(),
    )
    single = compare_means(
        make_plain_runs([0.9]), make_plain_runs([0.1, 0.2]), rubric=make_continuous()
    )

    assert (plain.verdict, Reason.LOW_N in plain.reasons) == (Verdict.REGRESSION, True)
    assert (single.verdict, single.reasons[0]) == (Verdict.INCONCLUSIVE, Reason.N_LT_2)


def test_equal_constants_pass_from_five_scenarios_on() -> None:
    five = compare_means(make_runs([0.8] * 5), make_runs([0.8] * 5), rubric=make_continuous())
    four = compare_means(
        make_plain_runs([0.8] * 4), make_plain_runs([0.8] * 4), rubric=make_continuous()
    )

    assert (five.verdict, five.p, five.ci95) == (Verdict.PASS, 1.0, None)
    assert Reason.NO_VARIATION in five.reasons
    assert four.verdict is Verdict.INCONCLUSIVE
    assert {Reason.NO_VARIATION, Reason.LOW_N, Reason.UNDERPOWERED} <= set(four.reasons)


def test_different_constants_are_tested_by_permutation() -> None:
    six = compare_means(make_runs([0.8] * 6), make_runs([0.6] * 6), rubric=make_continuous())
    five = compare_means(make_runs([0.8] * 5), make_runs([0.6] * 5), rubric=make_continuous())

    assert (six.verdict, six.p) == (Verdict.REGRESSION, 2 * 0.5**6)
    assert (five.verdict, five.p) == (Verdict.INCONCLUSIVE, 2 * 0.5**5)


def test_improvement_needs_ten_scenarios_and_balanced_arms() -> None:
    better = [value + 0.3 + noise for value, noise in zip(BASELINE[:9], WOBBLE, strict=False)]
    nine = compare_means(
        make_runs(BASELINE[:9]), make_runs(better), rubric=make_continuous(scale=None)
    )
    lopsided = compare_means(
        make_plain_runs([0.5 + 0.001 * index for index in range(40)]),
        make_plain_runs([0.9 + 0.001 * index for index in range(10)]),
        rubric=make_continuous(),
    )

    assert (nine.verdict, lopsided.verdict) == (Verdict.PASS, Verdict.PASS)


def test_crashes_of_the_agent_are_outcomes() -> None:
    crashed = [
        run._replace(value=None, status=RunStatus.AGENT_ERROR) if index < 8 else run
        for index, run in enumerate(make_runs(shifted(0.0)))
    ]

    scaled = compare_means(make_runs(BASELINE), crashed, rubric=make_continuous())
    unscaled = compare_means(make_runs(BASELINE), crashed, rubric=make_continuous(scale=None))

    assert (scaled.verdict, scaled.missing_candidate) == (Verdict.REGRESSION, 0)
    assert scaled.agent_errors_candidate == 8
    assert (unscaled.verdict, unscaled.reasons[0]) == (Verdict.INCONCLUSIVE, Reason.NO_SCALE)


def test_no_data_is_never_a_verdict() -> None:
    runs, rubric = make_runs(BASELINE), make_continuous()
    unjudged = make_runs([None] * 20)
    changed = [run._replace(status=RunStatus.NOT_COMPARABLE) for run in unjudged]

    def reason(baseline: list[RunScore] | None, candidate: list[RunScore]) -> Reason:
        result = compare_means(baseline, candidate, rubric=rubric)
        assert result.verdict is Verdict.INCONCLUSIVE
        assert result.p is None
        return result.reasons[0]

    assert reason(None, runs) is Reason.NO_BASELINE
    assert reason([], runs) is Reason.NO_BASELINE
    assert reason(unjudged, runs) is Reason.NO_BASELINE
    assert reason(runs, unjudged) is Reason.NOT_JUDGED
    assert reason(runs, []) is Reason.NOT_JUDGED
    assert reason(runs, changed) is Reason.JUDGE_CHANGED
    assert reason(changed, runs) is Reason.JUDGE_CHANGED


def test_too_many_missing_scores_cap_a_pass() -> None:
    candidate = make_runs([None, None, *shifted(0.0)[2:]])

    result = compare_means(make_runs(BASELINE), candidate, rubric=make_continuous(scale=None))

    assert (result.verdict, result.reasons[0]) == (Verdict.INCONCLUSIVE, Reason.MISSING)
    assert result.missingness is not None
    assert result.missingness.share_candidate == 0.1


def test_missing_scores_that_lost_their_judge_say_so() -> None:
    candidate = make_runs([None, None, *shifted(0.0)[2:]])
    lost = [
        run._replace(status=RunStatus.NOT_COMPARABLE) if run.value is None else run
        for run in candidate
    ]

    result = compare_means(make_runs(BASELINE), lost, rubric=make_continuous())

    assert result.reasons[:2] == (Reason.MISSING, Reason.NOT_COMPARABLE)


def test_a_pass_that_survives_the_worst_case_is_kept() -> None:
    rubric = make_continuous(scale=Scale(0.5, 0.9), min_effect=0.2)
    candidate = make_runs([None, None, *shifted(0.0)[2:]])

    result = compare_means(make_runs(BASELINE), candidate, rubric=rubric)

    assert (result.verdict, result.reasons[0]) == (Verdict.PASS, Reason.ROBUST)


def test_an_improvement_that_might_be_none_becomes_a_pass() -> None:
    rubric = make_continuous(min_effect=0.1, ni_margin=0.2)
    better = [min(1.0, value + 0.12 + noise) for value, noise in zip(BASELINE, WOBBLE, strict=True)]

    full = compare_means(make_runs(BASELINE), make_runs(better), rubric=rubric)
    gappy = compare_means(make_runs(BASELINE), make_runs([None, None, *better[2:]]), rubric=rubric)

    assert full.verdict is Verdict.IMPROVEMENT
    assert gappy.verdict is Verdict.PASS


def test_few_missing_scores_change_nothing_but_are_counted() -> None:
    baseline = make_runs([[value] * 5 for value in BASELINE])
    candidate = make_runs([[value] * 5 for value in shifted(0.0)])
    candidate[3] = candidate[3]._replace(value=None, status=RunStatus.JUDGE_REFUSED)

    result = compare_means(baseline, candidate, rubric=make_continuous())

    assert (result.verdict, result.missing_candidate) == (Verdict.PASS, 1)
    assert Reason.MISSING not in result.reasons


def test_a_regression_that_survives_the_best_case_is_robust() -> None:
    one_gap = compare_means(
        make_runs(BASELINE), make_runs([None, *shifted(0.3)[1:]]), rubric=make_continuous()
    )
    many_gaps = compare_means(
        make_runs(BASELINE), make_runs([*[None] * 10, *shifted(0.1)[10:]]), rubric=make_continuous()
    )
    unscaled = compare_means(
        make_runs(BASELINE),
        make_runs([None, *shifted(0.3)[1:]]),
        rubric=make_continuous(scale=None),
    )

    assert (one_gap.verdict, Reason.ROBUST in one_gap.reasons) == (Verdict.REGRESSION, True)
    assert (many_gaps.verdict, Reason.ROBUST in many_gaps.reasons) == (Verdict.REGRESSION, False)
    assert (unscaled.verdict, Reason.ROBUST in unscaled.reasons) == (Verdict.REGRESSION, False)


def test_an_inconclusive_verdict_keeps_its_reason_beside_missing() -> None:
    wide = [
        min(1.0, max(0.0, value + 8 * noise)) for value, noise in zip(BASELINE, WOBBLE, strict=True)
    ]

    result = compare_means(
        make_runs(BASELINE), make_runs([None, None, *wide[2:]]), rubric=make_continuous()
    )

    assert result.reasons[:2] == (Reason.MISSING, Reason.UNDERPOWERED)


def test_scores_outside_the_scale_are_missing_and_noted() -> None:
    result = compare_means(
        make_runs(BASELINE), make_runs([7.0, *shifted(0.0)[1:]]), rubric=make_continuous()
    )

    assert Reason.OUT_OF_SCALE in result.reasons
    assert result.missing_candidate == 1


def test_single_binary_runs_on_one_suite_are_mcnemars() -> None:
    baseline = [1.0] * 40 + [0.0] * 10
    candidate = [0.0] * 12 + [1.0] * 28 + [1.0] * 2 + [0.0] * 8

    result = compare_means(make_runs(baseline), make_runs(candidate), rubric=make_binary())

    assert result.paired is not None
    assert result.paired.test == "mcnemar_midp"
    assert result.p == pytest.approx(mcnemar(12, 2).midp)
    assert result.verdict is Verdict.REGRESSION
    assert result.delta == pytest.approx(-0.2)
    assert result.unpaired.test == "pooled_z"


def test_all_passing_is_no_proof() -> None:
    fifty = compare_means(
        make_runs([1.0] * 50), make_runs([1.0] * 50), rubric=make_binary(min_effect=0.05)
    )
    sixty = compare_means(
        make_runs([1.0] * 60), make_runs([1.0] * 60), rubric=make_binary(min_effect=0.05)
    )

    # Newcombe's one-sided bound for 50 of 50 against 50 of 50 is -.051, for 60 it is -.043.
    assert fifty.lower95 == pytest.approx(-0.051, abs=5e-4)
    assert (fifty.verdict, fifty.reasons[0]) == (Verdict.INCONCLUSIVE, Reason.UNDERPOWERED)
    assert sixty.lower95 == pytest.approx(-0.043, abs=5e-4)
    assert sixty.verdict is Verdict.PASS


def test_unpaired_binary_runs_are_two_rates() -> None:
    result = compare_means(
        make_plain_runs([1.0] * 400 + [0.0] * 100),
        make_plain_runs([1.0] * 350 + [0.0] * 150),
        rubric=make_binary(min_effect=0.05),
    )

    assert result.unpaired.test == "pooled_z"
    assert result.ci95 == pytest.approx(newcombe_interval(400, 500, 350, 500))
    assert result.verdict is Verdict.REGRESSION
    assert result.delta == pytest.approx(-0.1)
    assert result.p_floor is not None
    assert result.p_floor < 0.05
    assert result.equivalent is False


def test_unpaired_binary_runs_of_a_few_scenarios_are_exact() -> None:
    result = compare_means(
        make_plain_runs([1.0] * 6), make_plain_runs([1.0] + [0.0] * 5), rubric=make_binary()
    )

    assert (result.unpaired.test, result.verdict) == ("boschloo", Verdict.REGRESSION)
    single = compare_means(
        make_plain_runs([1.0]), make_plain_runs([1.0, 0.0]), rubric=make_binary()
    )
    assert single.reasons[0] is Reason.N_LT_2


def test_binary_epochs_are_clustered() -> None:
    passes_b, passes_c = [5, 5, 4, 5, 0, 5, 3, 5, 5, 1], [4, 5, 2, 5, 0, 4, 1, 5, 3, 0]

    def runs(passes: list[int]) -> list[RunScore]:
        return make_runs([[1.0] * count + [0.0] * (5 - count) for count in passes])

    result = compare_means(runs(passes_b), runs(passes_c), rubric=make_binary())
    direct = rao_scott_z(
        [float(p) for p in passes_b], [5] * 10, [float(p) for p in passes_c], [5] * 10
    )

    assert result.unpaired.test == "rao_scott_z"
    assert result.unpaired.p == pytest.approx(direct.p)
    assert result.unpaired.deff == pytest.approx(direct.deff)
    rates = [[count / 5 for count in passes] for passes in (passes_b, passes_c)]
    assert result.paired is not None
    assert result.paired.test == "paired_t"
    assert result.p == pytest.approx(paired_t(*rates).p)


def test_a_violation_rate_is_compared_as_its_complement() -> None:
    rubric = make_binary(direction=Direction.LOWER_IS_BETTER, abs_floor=0.2)

    result = compare_means(
        make_runs([0.0] * 45 + [1.0] * 5), make_runs([0.0] * 25 + [1.0] * 25), rubric=rubric
    )

    assert result.verdict is Verdict.REGRESSION
    assert result.delta == pytest.approx(-0.4)
    assert (result.mean_baseline, result.mean_candidate) == pytest.approx((0.1, 0.5))
    assert result.below_floor


def test_a_baseline_at_its_worst_is_noted() -> None:
    result = compare_means(
        make_runs([0.0] * 60), make_runs([0.0] * 60), rubric=make_binary(abs_floor=0.5)
    )

    assert result.verdict is Verdict.PASS
    assert Reason.BASELINE_AT_WORST in result.reasons
    assert result.below_floor
    assert Reason.BELOW_FLOOR in result.reasons


def test_the_absolute_floor_needs_no_baseline() -> None:
    result = compare_means(None, make_runs(BASELINE), rubric=make_continuous(abs_floor=0.5))

    assert result.abs_floor is not None
    assert result.abs_floor.verdict is FloorVerdict.ABOVE
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.added == ()


def test_batch_noise_of_five_nights_widens_the_interval() -> None:
    shifts = [0.00, 0.06, -0.06, 0.03, -0.03]
    nights = [
        run._replace(value=(run.value or 0.0) + shift + noise, batch=f"night-{shift}")
        for shift in shifts
        for run, noise in zip(make_runs(BASELINE), WOBBLE, strict=True)
    ]
    rubric = make_continuous(scale=None)

    named = compare_means(nights, make_runs(shifted(0.08)), rubric=rubric)
    unnamed = compare_means(
        [run._replace(batch=None) for run in nights], make_runs(shifted(0.08)), rubric=rubric
    )

    assert unnamed.verdict is Verdict.REGRESSION
    assert Reason.BATCH_UNKNOWN in unnamed.reasons
    assert named.verdict is Verdict.INCONCLUSIVE
    assert (named.df, Reason.BATCH_UNKNOWN in named.reasons) == (4, False)
    assert named.paired is not None
    assert named.paired.se_batch is not None
    assert named.paired.se_batch > 0.04


scores = st.lists(st.one_of(st.none(), st.floats(), st.integers(0, 1).map(float)), max_size=30)


@quick
@given(scores, scores, st.sampled_from(["continuous", "unscaled", "binary", "lower"]))
def test_no_input_makes_a_number_that_is_none(
    before: list[float | None], after: list[float | None], kind: str
) -> None:
    rubric = {
        "continuous": make_continuous(abs_floor=0.5),
        "unscaled": make_continuous(scale=None),
        "binary": make_binary(abs_floor=0.5),
        "lower": make_continuous(direction=Direction.LOWER_IS_BETTER),
    }[kind]

    result = compare_means(make_runs(before), make_runs(after), rubric=rubric)

    blocks = [block for block in (result.unpaired, result.paired) if block is not None]
    numbers = [
        value
        for holder in (result, *blocks)
        for value in vars(holder).values()
        if isinstance(value, float)
    ]
    numbers += [end for block in blocks for ends in (block.ci95, block.ci90) for end in ends or ()]
    assert np.all(np.isfinite(numbers))


@quick
@given(st.lists(st.floats(0, 1), min_size=5, max_size=25), st.randoms())
def test_order_of_runs_changes_nothing(values: list[float], mix: random.Random) -> None:
    baseline = make_runs(values)
    candidate = make_runs([value / 2 for value in values])
    mixed = candidate[:]
    mix.shuffle(mixed)

    rubric = make_continuous()
    forward = compare_means(baseline, candidate, rubric=rubric)
    assert compare_means(baseline[::-1], mixed, rubric=rubric) == forward


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=10, max_size=25))
def test_verdicts_mirror(pairs: list[tuple[float, float]]) -> None:
    first, second = make_runs([b for b, _ in pairs]), make_runs([c for _, c in pairs])
    rubric = make_continuous(scale=None)

    forward = compare_means(first, second, rubric=rubric)
    backward = compare_means(second, first, rubric=rubric)

    assert (forward.verdict is Verdict.REGRESSION) == (backward.verdict is Verdict.IMPROVEMENT)


@quick
@given(st.floats(0, 0.4), st.floats(0, 0.4))
def test_a_larger_drop_is_never_judged_milder(one: float, other: float) -> None:
    order = [Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.IMPROVEMENT]
    small, large = sorted((one, other))
    rubric = make_continuous(scale=None)

    milder = compare_means(make_runs(BASELINE), make_runs(shifted(small)), rubric=rubric)
    harder = compare_means(make_runs(BASELINE), make_runs(shifted(large)), rubric=rubric)

    assert order.index(harder.verdict) <= order.index(milder.verdict)


@pytest.mark.parametrize(
    ("n", "drop", "regressions", "passes"),
    [(20, 0.0, 0.025, 0.392), (20, 0.10, 0.811, 0.001), (40, 0.075, 0.843, 0.004)],
)
def test_operating_characteristics(n: int, drop: float, regressions: float, passes: float) -> None:
    """Paired, sd .15, floor .05: rates of a large simulation; here 400 runs, three s.e. .075."""
    rng = np.random.default_rng(7)
    rubric = replace(make_continuous(), scale=None)
    verdicts = []
    for _ in range(400):
        before = rng.normal(0.5, 0.2, n)
        after = before - drop + rng.normal(0, 0.15, n)
        result = compare_means(make_runs(before.tolist()), make_runs(after.tolist()), rubric=rubric)
        verdicts.append(result.verdict)

    assert verdicts.count(Verdict.REGRESSION) / 400 == pytest.approx(regressions, abs=0.075)
    assert verdicts.count(Verdict.PASS) / 400 == pytest.approx(passes, abs=0.075)


def test_smallest_visible_effect_follows_alpha() -> None:
    """STATISTICS 2.4: (t at 1 - alpha/2 + t at .80) standard errors."""
    usual, strict = compared(0.05), compared(0.05, alpha=0.01)

    assert usual.se is not None
    assert strict.se == usual.se
    t = scipy.stats.t(19)
    assert strict.mde80 == pytest.approx((t.ppf(0.995) + t.ppf(0.8)) * usual.se)
    assert usual.mde80 == pytest.approx((t.ppf(0.975) + t.ppf(0.8)) * usual.se)
