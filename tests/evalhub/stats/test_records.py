import json
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.comparison import compare_means, compare_tails, to_record
from evalhub.stats.outcomes import Confirmation
from evalhub.stats.records import jsonable
from tests.evalhub.stats.make import (
    make_binary,
    make_continuous,
    make_plain_runs,
    make_runs,
    make_tail,
    quick,
)

# The content of a decision record that the statistics own.
MEAN_KEYS = {
    "rubric", "design", "decided_by", "n", "runs", "missing", "delta", "se", "se_batch", "df",
    "stat", "p", "p_holm", "ci95", "lower95", "floor", "ni_margin", "verdict", "confirmed",
    "reasons", "mde80", "n_required", "p_floor", "tost_p", "unpaired", "paired", "tail",
}  # fmt: skip
TAIL_KEYS = {"r", "T", "k", "k_b", "k_max", "p95_b", "p95_c", "p_tail", "p_ni", "ceiling"}
scores = st.lists(st.one_of(st.none(), st.floats(), st.integers(0, 3).map(float)), max_size=30)


def test_mean_record_holds_the_decision() -> None:
    values = [0.1 * (index % 7) for index in range(30)]
    comparison = compare_means(
        make_runs(values),
        make_runs([value / 2 for value in values]),
        rubric=make_continuous(abs_floor=0.2),
    )

    record = to_record(
        comparison, confirmation=Confirmation(p_holm=0.012345678901234, confirmed=True)
    )

    assert set(record) >= MEAN_KEYS
    assert record["verdict"] == "REGRESSION"
    assert record["n"] == {"b": 30, "c": 30, "pairs": 30}
    assert (record["p_holm"], record["confirmed"]) == (0.0123456789012, True)
    assert record["tail"] is None
    assert record["abs_floor"] is not None


def test_mean_record_without_scenario_ids_has_no_pairs() -> None:
    runs = make_plain_runs([0.1, 0.2, 0.3])

    record = to_record(compare_means(runs, runs, rubric=make_continuous()))

    assert (record["paired"], record["decided_by"]) == (None, "unpaired")


def test_tail_record_holds_the_tests() -> None:
    runs = make_runs([1 + index / 100 for index in range(100)])

    with_test = to_record(compare_tails(runs, runs, rubric=make_tail(ceiling=9.0)))
    without = to_record(compare_tails(None, runs, rubric=make_tail()))

    for record in (with_test, without):
        assert isinstance(record["tail"], dict)
        assert set(record["tail"]) >= TAIL_KEYS
        assert (record["p_holm"], record["confirmed"]) == (None, None)
    assert isinstance(without["tail"], dict)
    assert without["tail"]["r"] is None
    assert without["missing"] == {
        "share_b": None,
        "share_c": None,
        "p": None,
        "caps": None,
        "b": 0,
        "c": 0,
    }


@quick
@given(scores, scores)
def test_records_are_json_and_repeat_exactly(
    before: list[float | None], after: list[float | None]
) -> None:
    for rubric in (make_continuous(scale=None), make_binary(abs_floor=0.5)):
        baseline, candidate = make_runs(before), make_runs(after)
        once = to_record(compare_means(baseline, candidate, rubric=rubric))
        again = to_record(compare_means(baseline[::-1], candidate[::-1], rubric=rubric))
        text = json.dumps(once, allow_nan=False)
        assert json.dumps(again, allow_nan=False) == text
        assert json.loads(text) == once
    tails = to_record(
        compare_tails(make_runs(before), make_runs(after), rubric=make_tail(ceiling=2.0))
    )
    assert json.loads(json.dumps(tails, allow_nan=False)) == tails


def test_jsonable_keeps_twelve_digits_and_refuses_strangers() -> None:
    class Color(StrEnum):
        RED = "red"

    assert jsonable({"a": (1 / 3, -0.0, True, 7, "x", None), "b": [Color.RED]}) == {
        "a": [0.333333333333, 0.0, True, 7, "x", None],
        "b": ["red"],
    }
    assert str(jsonable(-0.0)) == "0.0"
    assert type(jsonable(Color.RED)) is str
    assert jsonable(float("inf")) is None
    with pytest.raises(TypeError, match="no place"):
        jsonable({1, 2})
