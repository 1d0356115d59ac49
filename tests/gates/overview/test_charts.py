"""Pictures of effects share one axis in floors, and their figure is plain data."""

import json

import pytest

from gates.overview import charts


def make_effect(
    delta: float = -0.2,
    *,
    low: float | None = -0.3,
    high: float | None = -0.1,
    floor: float = 0.1,
    verdict: str = "REGRESSION",
    label: str = "resolved",
) -> charts.Effect:
    return charts.Effect(label, verdict, delta, low, high, floor)


def test_bar_places_zero_in_the_middle_and_the_floor_left_of_it() -> None:
    bar = charts.bar(make_effect(), half=4)

    assert (bar.zero, bar.floor, bar.point) == (50, 37.5, 25)
    assert (bar.low, bar.high, bar.width) == (12.5, 37.5, 25)
    assert (bar.has_interval, bar.is_cut) == (True, False)


def test_bar_of_a_wide_interval_ends_at_the_edge() -> None:
    bar = charts.bar(make_effect(low=-9, high=9), half=4)

    assert (bar.low, bar.high, bar.is_cut) == (0, 100, True)


def test_bar_without_an_interval_is_its_point() -> None:
    bar = charts.bar(make_effect(low=None, high=None), half=4)

    assert (bar.low, bar.high, bar.has_interval) == (bar.point, bar.point, False)


@pytest.mark.parametrize(
    ("delta", "half"), [(0.0, 2.0), (-0.3, 3.3), (-50.0, charts.WIDEST), (0.4, 4.4)]
)
def test_axis_holds_every_effect_up_to_its_limit(delta: float, half: float) -> None:
    effect = make_effect(delta, low=None, high=None)

    assert charts.half_width([effect]) == pytest.approx(half)


def test_forest_reaches_as_far_as_its_effects_to_each_side() -> None:
    low, high = charts.axis_range([make_effect(-0.4, low=-0.6, high=-0.2)])

    assert -6.5 < low < -6
    assert 1 <= high < 1.3


def test_axis_without_effects_has_its_least_width() -> None:
    assert charts.half_width([]) == 2.0


def test_forest_has_a_row_per_effect_and_marks_floor_and_zero() -> None:
    effects = [
        make_effect(label="first"),
        make_effect(0.02, low=None, high=None, verdict="PASS", label="second"),
    ]

    figure = charts.forest_figure(effects)

    assert figure["layout"]["yaxis"]["ticktext"] == ["second", "first"]
    assert [trace["y"] for trace in figure["data"]] == [[0], [1]]
    assert figure["data"][1]["x"] == [-2.0]
    assert figure["data"][1]["error_x"]["array"] == [pytest.approx(1.0)]
    assert figure["data"][1]["error_x"]["color"] == "--bad"
    assert figure["data"][0]["marker"]["symbol"] == "diamond-open"
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {0, -1}
    assert json.loads(json.dumps(figure)) == figure


def test_two_effects_of_one_label_keep_rows_of_their_own() -> None:
    figure = charts.forest_figure([make_effect(), make_effect(0.1)])

    assert figure["layout"]["yaxis"]["tickvals"] == [0, 1]


def test_effect_beyond_the_axis_is_an_arrow_at_its_edge() -> None:
    figure = charts.forest_figure([make_effect(-1.9, low=-2.2, high=-1.6)])

    (trace,) = figure["data"]
    assert trace["x"] == [-charts.FARTHEST]
    assert trace["marker"]["symbol"] == "triangle-left"
    assert "effect −1.9" in trace["hovertemplate"]
