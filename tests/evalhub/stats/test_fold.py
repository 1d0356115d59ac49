import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.comparison import MeanComparison, compare_means, compare_tails
from evalhub.stats.fold import CheckWord, FoldInput, Triage, confirm, fold, fold_input
from evalhub.stats.multiplicity import holm
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Gate
from tests.evalhub.stats.make import make_continuous, make_runs, make_tail, quick

REGRESSION = FoldInput(verdict=Verdict.REGRESSION, name="quality", confirmed=True)
PASSED = FoldInput(verdict=Verdict.PASS, name="tone")
WEAK = FoldInput(verdict=Verdict.INCONCLUSIVE, name="safety", reasons=(Reason.UNDERPOWERED,))


def word(*rubrics: FoldInput, protected: bool = False) -> CheckWord:
    return fold(rubrics, protected=protected).word


def with_triage(triage: Triage) -> FoldInput:
    return FoldInput(verdict=Verdict.REGRESSION, confirmed=True, triage=triage)


def test_a_confirmed_regression_fails() -> None:
    assert word(REGRESSION, PASSED) is CheckWord.FAILURE
    assert fold([REGRESSION, PASSED], protected=False).failing == ("quality",)


def test_an_unconfirmed_regression_needs_a_person() -> None:
    for confirmed in (False, None):
        unconfirmed = FoldInput(verdict=Verdict.REGRESSION, confirmed=confirmed)
        assert word(unconfirmed, PASSED) is CheckWord.ACTION_REQUIRED


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.IMPROVEMENT])
def test_a_broken_limit_fails_whatever_the_verdict(verdict: Verdict) -> None:
    assert word(FoldInput(verdict=verdict, below_floor=True)) is CheckWord.FAILURE
    assert word(FoldInput(verdict=verdict, breach=True)) is CheckWord.FAILURE


@pytest.mark.parametrize("label", list(Triage))
def test_triage_never_makes_a_failure_green(label: Triage) -> None:
    stands = label in (Triage.REAL_REGRESSION, Triage.RUN_NOISE)

    expected = CheckWord.FAILURE if stands else CheckWord.ACTION_REQUIRED
    assert word(with_triage(label), PASSED) is expected


def test_weak_evidence_is_neutral_only_where_nothing_is_protected() -> None:
    assert word(WEAK, PASSED) is CheckWord.NEUTRAL
    assert word(WEAK, PASSED, protected=True) is CheckWord.ACTION_REQUIRED


@pytest.mark.parametrize("reason", [Reason.MISSING, Reason.JUDGE_CHANGED, Reason.TAIL_N])
def test_evidence_that_carries_no_verdict_is_never_neutral(reason: Reason) -> None:
    rubric = FoldInput(verdict=Verdict.INCONCLUSIVE, name="x", reasons=(reason, Reason.BORDERLINE))

    assert word(rubric) is CheckWord.ACTION_REQUIRED
    assert fold([rubric], protected=False).evidence == ("x",)


def test_only_blocking_rubrics_count() -> None:
    warned = FoldInput(verdict=Verdict.REGRESSION, confirmed=True, gate=Gate.WARN)

    assert word(warned, PASSED) is CheckWord.SUCCESS
    assert word(warned) is CheckWord.NEUTRAL
    assert fold([warned], protected=False).nothing_blocking


def test_a_tail_that_shows_neither_harm_nor_safety_is_left_out_and_named() -> None:
    tail = FoldInput(verdict=Verdict.INCONCLUSIVE, name="latency", left_out=True)

    folded = fold([tail, PASSED], protected=True)

    assert (folded.word, folded.left_out) == (CheckWord.SUCCESS, ("latency",))
    assert word(tail) is CheckWord.NEUTRAL


def test_success_needs_a_pass_or_an_improvement_of_all() -> None:
    better = FoldInput(verdict=Verdict.IMPROVEMENT)

    assert word(PASSED, better) is CheckWord.SUCCESS


inputs = st.builds(
    FoldInput,
    verdict=st.sampled_from(Verdict),
    gate=st.sampled_from(Gate),
    confirmed=st.sampled_from([None, True, False]),
    triage=st.sampled_from([None, *Triage]),
    reasons=st.lists(st.sampled_from(Reason), max_size=3).map(tuple),
    below_floor=st.booleans(),
    breach=st.booleans(),
    left_out=st.booleans(),
)
SEVERITY = [CheckWord.SUCCESS, CheckWord.NEUTRAL, CheckWord.ACTION_REQUIRED, CheckWord.FAILURE]


@pytest.mark.parametrize("protected", [True, False])
@quick
@given(rubrics=st.lists(inputs, max_size=6), another=inputs)
def test_one_more_rubric_never_helps_unless_it_is_the_first(
    *, rubrics: list[FoldInput], another: FoldInput, protected: bool
) -> None:
    before, after = (
        fold(rubrics, protected=protected),
        fold([*rubrics, another], protected=protected),
    )

    if not before.nothing_blocking:
        assert SEVERITY.index(after.word) >= SEVERITY.index(before.word)


@quick
@given(st.lists(inputs, max_size=6))
def test_a_protected_tier_is_never_milder(rubrics: list[FoldInput]) -> None:
    open_tier, protected = fold(rubrics, protected=False), fold(rubrics, protected=True)

    assert SEVERITY.index(protected.word) >= SEVERITY.index(open_tier.word)


def comparisons(drops: list[float]) -> list[MeanComparison]:
    wobble = [0.02, -0.02, 0.01, -0.01, 0.03, -0.03, 0.0, 0.015, -0.015, 0.005]
    baseline = [0.5 + 0.04 * index for index in range(10)]
    return [
        compare_means(
            make_runs(baseline),
            make_runs([b - drop + w for b, w in zip(baseline, wobble, strict=True)]),
            rubric=make_continuous(min_effect=0.01),
        )
        for drop in drops
    ]


def test_confirm_adjusts_the_whole_family() -> None:
    family = comparisons([0.1, 0.016, 0.0])
    raw = [comparison.p for comparison in family if comparison.p is not None]

    confirmed = confirm(family, method="holm", alpha=0.05)

    assert [entry.p_holm for entry in confirmed] == pytest.approx(holm(raw))
    assert [comparison.verdict for comparison in family][:2] == [Verdict.REGRESSION] * 2
    # The second has a raw p below .05, which does not survive its family.
    assert raw[1] < 0.05
    assert [entry.confirmed for entry in confirmed] == [True, False, None]


def test_confirm_counts_a_rubric_without_p() -> None:
    regression = comparisons([0.016])[0]
    unjudged = compare_means(
        make_runs([0.5] * 10), make_runs([None] * 10), rubric=make_continuous()
    )

    alone = confirm([regression])[0]
    among = confirm([regression, unjudged, unjudged])

    assert (alone.confirmed, among[0].confirmed) == (True, False)
    assert among[0].p_holm == pytest.approx(3 * (alone.p_holm or 0.0))
    assert among[1] == (None, None)


def test_confirm_by_policy_takes_every_regression() -> None:
    family = comparisons([0.1, 0.0])

    assert confirm(family, method="none") == ((None, True), (None, None))
    with pytest.raises(ValueError, match="bonferroni"):
        confirm(family, method="bonferroni")


def test_fold_input_carries_what_the_fold_needs() -> None:
    mean = compare_means(
        make_runs([0.9] * 5), make_runs([0.1] * 5), rubric=make_continuous(abs_floor=0.5)
    )
    tail = compare_tails(None, make_runs([9.0] * 20), rubric=make_tail(ceiling=1.0, gate=Gate.WARN))

    seen = fold_input(mean, name="quality")
    breached = fold_input(
        tail, name="latency", confirmation=confirm([tail])[0], triage=Triage.UNRESOLVED
    )

    assert (seen.name, seen.below_floor, seen.verdict) == ("quality", True, mean.verdict)
    assert (breached.gate, breached.breach, breached.left_out) == (Gate.WARN, True, False)
    assert breached.triage is Triage.UNRESOLVED
