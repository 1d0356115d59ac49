import pytest

from evalhub.stats.comparison import compare_means, compare_tails, sentence
from evalhub.stats.rubric import Direction, RunStatus
from tests.evalhub.stats.make import (
    make_binary,
    make_continuous,
    make_plain_runs,
    make_runs,
    make_tail,
)
from tests.evalhub.stats.test_compare_means import BASELINE, WOBBLE, compared, shifted


@pytest.mark.parametrize(
    ("drop", "words"),
    [
        (0.1, "quality: worse by 0.1"),
        (0.1, "which reaches the floor of 0.05."),
        (-0.1, "quality: better by 0.0995 (95 % interval 0.0"),
        (0.0, "; a drop of 0.05 is excluded."),
        (0.045, "too close to the floor of 0.05 to call."),
    ],
)
def test_mean_sentence_says_what_was_found(drop: float, words: str) -> None:
    assert words in sentence(compared(drop), name="quality")


def test_underpowered_sentence_says_what_would_do() -> None:
    wide = [value + 10 * noise for value, noise in zip(BASELINE, WOBBLE, strict=True)]
    result = compare_means(make_runs(BASELINE), make_runs(wide), rubric=make_continuous(scale=None))

    text = sentence(result, name="quality")

    assert text == (
        f"quality: cannot see a drop smaller than {result.mde80:.3g} with 20 scenarios; "
        f"{result.n_required} would do for the floor of 0.05."
    )


def test_hopeless_sentence_promises_nothing() -> None:
    wide = [value + 10 * noise for value, noise in zip(BASELINE, WOBBLE, strict=True)]
    result = compare_means(
        make_runs(BASELINE), make_runs(wide), rubric=make_continuous(scale=None, min_effect=1e-9)
    )

    assert "no number of them would do" in sentence(result, name="quality")


def test_constant_scores_are_described() -> None:
    same = compare_means(make_runs([0.8] * 5), make_runs([0.8] * 5), rubric=make_continuous())
    few = compare_means(
        make_plain_runs([0.8] * 2), make_plain_runs([0.8] * 2), rubric=make_continuous()
    )

    assert sentence(same, name="tone") == "tone: unchanged; a drop of 0.05 is excluded."
    assert sentence(few, name="tone") == (
        "tone: 2 scenarios without any variation cannot exclude a drop of 0.05."
    )


def test_missing_evidence_is_named() -> None:
    runs = make_runs(BASELINE)
    rubric = make_continuous()

    assert sentence(compare_means(None, runs, rubric=rubric), name="x") == (
        "x: there is no baseline to compare with."
    )
    other = compare_means(runs, make_runs(BASELINE, prefix="other"), rubric=rubric)
    assert sentence(other, name="x") == "x: only 0 scenarios can be compared, and it takes 5."
    gappy = compare_means(runs, make_runs([*[None] * 5, *shifted(0.0)[5:]]), rubric=rubric)
    assert sentence(gappy, name="x") == "x: too many scores are missing."
    short = compare_tails(runs[:5], runs[:5], rubric=make_tail())
    assert "fewer than 20" in sentence(short, name="x")


def test_absolute_limits_are_added() -> None:
    low = compare_means(
        make_runs([0.0] * 60), make_runs([0.0] * 60), rubric=make_binary(abs_floor=0.5)
    )
    high = compare_means(
        make_runs([1.0] * 60),
        make_runs([1.0] * 60),
        rubric=make_binary(abs_floor=0.5, direction=Direction.LOWER_IS_BETTER),
    )

    assert sentence(low, name="safe").endswith(
        "is below its absolute limit of 0.5 with 95 % confidence."
    )
    assert "is above its absolute limit of 0.5" in sentence(high, name="violations")


def test_tail_sentence_says_what_was_found() -> None:
    runs = [1 + index / 200 for index in range(200)]
    slow = make_runs([2 * value for value in runs])
    rubric = make_tail(ceiling=3.0)

    worse = sentence(compare_tails(make_runs(runs), slow, rubric=rubric), name="latency")
    same = sentence(compare_tails(make_runs(runs), make_runs(runs), rubric=rubric), name="latency")
    few = sentence(
        compare_tails(make_runs(runs[:40]), make_runs(runs[:40]), rubric=rubric), name="latency"
    )
    apart = sentence(
        compare_tails(make_runs(runs), make_runs(runs, prefix="other"), rubric=rubric),
        name="latency",
    )

    assert worse.startswith("latency: p95 1.95 before, 3.89 now: the tail is worse; ")
    assert worse.endswith("of 200 runs are over the ceiling of 3.")
    assert same.endswith(": growth of 50 % is excluded.")
    assert few.endswith(": no regression seen, safety not shown.")
    assert apart == "latency: the arms share fewer than 5 scenarios."


def test_a_crash_without_a_scale_is_explained() -> None:
    crash = make_runs(BASELINE, status=RunStatus.AGENT_ERROR)

    result = compare_means(make_runs(BASELINE), crash, rubric=make_continuous(scale=None))

    assert "without a scale a crash has no score" in sentence(result, name="x")
