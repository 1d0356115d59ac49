"""Comparisons in plain words, with the numbers that a reader needs to act."""

from evalhub.stats.absolute import FloorTest
from evalhub.stats.outcomes import MeanComparison, TailComparison
from evalhub.stats.reasons import Reason, Verdict
from evalhub.stats.rubric import Design
from evalhub.stats.suite import FEWEST_SHARED

WITHOUT_VERDICT = {
    Reason.NO_BASELINE: "there is no baseline to compare with",
    Reason.NOT_JUDGED: "no run of the candidate has a score",
    Reason.JUDGE_CHANGED: "both arms were judged by different judges; judge the baseline again",
    Reason.NO_SCALE: "the agent crashed, and without a scale a crash has no score",
    Reason.N_LT_2: "one scenario alone cannot be compared",
    Reason.MISSING: "too many scores are missing",
    Reason.SUITE_CHANGED: "too few scenarios are the same in both arms",
    Reason.TAIL_N: "fewer than 20 comparable runs in an arm say nothing about a tail",
}


def mean_sentence(comparison: MeanComparison, *, name: str) -> str:
    """Say what the comparison of a mean rubric found."""
    words = f"{name}: {_mean_words(comparison)}"
    if comparison.below_floor and comparison.abs_floor is not None:
        words += f"; {_floor_words(comparison, comparison.abs_floor)}"
    return f"{words}."


def tail_sentence(comparison: TailComparison, *, name: str) -> str:
    """Say what the comparison of a tail rubric found."""
    words = f"{name}: {_tail_words(comparison)}"
    ceiling = comparison.ceiling
    if comparison.breach and ceiling is not None:
        limit = comparison.rubric.ceiling
        words += f"; {ceiling.k_over} of {ceiling.n} runs are over the ceiling of {limit:g}"
    return f"{words}."


def number(value: float) -> str:
    """Write a number with three significant digits.

    >>> number(0.0574725), number(61.0), number(12345.6)
    ('0.0575', '61', '12346')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _mean_words(comparison: MeanComparison) -> str:
    gap = _gap_words(comparison)
    if gap is not None:
        return gap
    if comparison.delta is None:
        shared = _count(comparison.n_pairs, "scenario")
        return f"only {shared} can be compared, and it takes {FEWEST_SHARED}"
    moved = _moved(comparison)
    if comparison.verdict is Verdict.REGRESSION:
        return f"{moved}, which reaches the floor of {number(comparison.floor)}"
    if comparison.verdict is Verdict.PASS:
        return f"{moved}; a drop of {number(comparison.ni_margin)} is excluded"
    if comparison.verdict is Verdict.INCONCLUSIVE:
        return _weak_words(comparison, moved=moved)
    return moved


def _weak_words(comparison: MeanComparison, *, moved: str) -> str:
    floor = number(comparison.floor)
    if Reason.BORDERLINE in comparison.reasons:
        return f"{moved}: too close to the floor of {floor} to call"
    scenarios = _count(_scenarios(comparison), "scenario")
    if comparison.mde80 is None:
        return f"{scenarios} without any variation cannot exclude a drop of {floor}"
    blind = f"cannot see a drop smaller than {number(comparison.mde80)} with {scenarios}"
    if comparison.n_required is None:
        return f"{blind}; no number of them would do for the floor of {floor}"
    return f"{blind}; {comparison.n_required} would do for the floor of {floor}"


def _moved(comparison: MeanComparison) -> str:
    delta = comparison.delta or 0.0
    if delta == 0:
        change = "unchanged"
    else:
        change = f"{'better' if delta > 0 else 'worse'} by {number(abs(delta))}"
    if comparison.ci95 is None:
        return change
    low, high = comparison.ci95
    if delta < 0:
        # "Worse by" has taken the sign.
        low, high = -high, -low
    return f"{change} (95 % interval {number(low)} to {number(high)})"


def _floor_words(comparison: MeanComparison, floor: FloorTest) -> str:
    limit = comparison.rubric.abs_floor
    side = "below" if comparison.rubric.sign > 0 else "above"
    shown = "" if limit is None else f" of {limit:g}"
    bound = "" if floor.upper95 is None else " with 95 % confidence"
    return f"the candidate is {side} its absolute limit{shown}{bound}"


def _tail_words(comparison: TailComparison) -> str:
    gap = _gap_words(comparison)
    if gap is not None:
        return gap
    before, after = comparison.quantile_baseline, comparison.quantile_candidate
    if comparison.test is None or before is None or after is None:
        return f"the arms share fewer than {FEWEST_SHARED} scenarios"
    moved = f"p{100 * comparison.rubric.q:g} {number(before)} before, {number(after)} now"
    if comparison.verdict is Verdict.REGRESSION:
        return f"{moved}: the tail is worse"
    if comparison.verdict is Verdict.PASS:
        return f"{moved}: growth of {100 * comparison.rubric.ni_tol:g} % is excluded"
    return f"{moved}: no regression seen, safety not shown"


def _gap_words(comparison: MeanComparison | TailComparison) -> str | None:
    """Return why the evidence could not carry a verdict, if that is so."""
    if comparison.verdict is not Verdict.INCONCLUSIVE:
        return None
    reasons = comparison.reasons
    return next((WITHOUT_VERDICT[reason] for reason in reasons if reason in WITHOUT_VERDICT), None)


def _scenarios(comparison: MeanComparison) -> int:
    if comparison.decided_by is Design.PAIRED:
        return comparison.n_pairs
    return min(comparison.n_baseline, comparison.n_candidate)


def _count(number_of: int, noun: str) -> str:
    """Write a count with its noun.

    >>> _count(1, "scenario"), _count(24, "scenario")
    ('1 scenario', '24 scenarios')
    """
    return f"{number_of} {noun}" if number_of == 1 else f"{number_of} {noun}s"
