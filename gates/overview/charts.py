"""Pictures of effects: plain numbers and dicts in, plain numbers and dicts out.

Rubrics have units of their own, so effects share an axis in floors: the smallest effect that
matters. 0 is no change, −1 a drop by exactly the floor, and left is worse for every rubric.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from evalhub.web.templatetags.formatting import interval, mark_of, signed

WIDEST = 5.0
"""Effects beyond this many floors are drawn at the edge; their numbers say how far they are."""
FARTHEST = 10.0
"""The same for the forest plot, which has the room."""
_NARROWEST = 2.0
_ROW_PIXELS = 34


class Effect(NamedTuple):
    """An effect with its 95 % interval, in the rubric's units and in floors."""

    label: str
    verdict: str
    delta: float
    low: float | None
    high: float | None
    floor: float

    @property
    def floors(self) -> float:
        return self.delta / self.floor

    @property
    def low_floors(self) -> float:
        return self.floors if self.low is None else self.low / self.floor

    @property
    def high_floors(self) -> float:
        return self.floors if self.high is None else self.high / self.floor


class Bar(NamedTuple):
    """Where an interval lies in a small picture, from 0 to 100 across."""

    low: float
    high: float
    point: float
    zero: float
    floor: float
    has_interval: bool
    is_cut: bool

    @property
    def width(self) -> float:
        return round(self.high - self.low, 2)


def half_width(effects: Sequence[Effect]) -> float:
    """Return how many floors an axis must show to each side, so that all pictures share it."""
    reach = [abs(x) for e in effects for x in (e.low_floors, e.high_floors, e.floors)]
    return min(max([_NARROWEST, *(1.1 * x for x in reach)]), WIDEST)


def bar(effect: Effect, *, half: float) -> Bar:
    """Return an effect's place in a picture that shows `half` floors to each side of 0."""

    def place(floors: float) -> float:
        return round(50 + 50 * min(max(floors / half, -1), 1), 2)

    return Bar(
        low=place(effect.low_floors),
        high=place(effect.high_floors),
        point=place(effect.floors),
        zero=50,
        floor=place(-1),
        has_interval=effect.low is not None and effect.high is not None,
        is_cut=max(abs(effect.low_floors), abs(effect.high_floors)) > half,
    )


def axis_range(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return from where to where the forest plot's axis goes, in floors: as far as the effects do."""
    reach = [x for e in effects for x in (e.low_floors, e.high_floors, e.floors)]
    low, high = min([-_NARROWEST, *reach]), max([_NARROWEST / 2, *reach])
    # A little wider than the effects, so that a mark at the edge is seen whole.
    margin = 0.03 * (high - low)
    return max(low - margin, -FARTHEST), min(high + margin, FARTHEST)


def forest_figure(effects: Sequence[Effect]) -> dict[str, Any]:
    """Return the forest plot of all effects, as Plotly takes it; colors are custom properties."""
    axis = axis_range(effects)
    # Plotly stacks from the bottom: the table's first row is to stand on top. Two rubrics may share
    # a label, so rows have numbers and the labels are written beside them.
    rows = list(enumerate(reversed(effects)))
    return {
        "data": [_trace(effect, row=row, axis=axis) for row, effect in rows],
        "layout": {
            "height": _ROW_PIXELS * len(effects) + 100,
            "margin": {"l": 10, "r": 16, "t": 24, "b": 50},
            "showlegend": False,
            "hoverlabel": {"align": "left"},
            "xaxis": {
                "range": [round(1.02 * end, 6) for end in axis],
                "title": {
                    "text": "effect in floors, worse on the left",
                    "font": {"size": 12, "color": "--soft"},
                },
                "zeroline": False,
                "gridcolor": "--line",
                "fixedrange": True,
            },
            "yaxis": {
                "tickmode": "array",
                "tickvals": [row for row, _ in rows],
                "ticktext": [effect.label for _, effect in rows],
                "range": [-0.6, len(effects) - 0.4],
                "automargin": True,
                "zeroline": False,
                "gridcolor": "--line",
                "fixedrange": True,
            },
            "shapes": [
                _line(0, color="--edge", dash="solid"),
                _line(-1, color="--bad", dash="dash"),
            ],
            "annotations": [
                _note(0, "no change", color="--soft", anchor="left"),
                _note(-1, "floor", color="--bad", anchor="right"),
            ],
        },
    }


def _trace(effect: Effect, *, row: int, axis: tuple[float, float]) -> dict[str, Any]:
    mark = mark_of(effect.verdict)
    x = min(max(effect.floors, axis[0]), axis[1])
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(x, 6)],
        "y": [row],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [round(max(effect.high_floors - x, 0), 6)],
            "arrayminus": [round(max(x - effect.low_floors, 0), 6)],
            "color": f"--{mark.tone}",
            "thickness": 2,
            "width": 5,
        },
        "marker": {
            "color": f"--{mark.tone}",
            "size": 10,
            "symbol": _symbol(effect, axis=axis),
        },
        "hovertemplate": (
            f"{mark.word}<br>effect {signed(effect.delta)}"
            f"<br>95 % interval {interval(_ends(effect))}<extra></extra>"
        ),
    }


def _symbol(effect: Effect, *, axis: tuple[float, float]) -> str:
    if not axis[0] <= effect.floors <= axis[1]:
        # It lies further out than the axis goes: an arrow says so, a dot would be a wrong number.
        return "triangle-left" if effect.floors < 0 else "triangle-right"
    return "circle" if effect.low is not None else "diamond-open"


def _ends(effect: Effect) -> tuple[float, float] | None:
    if effect.low is None or effect.high is None:
        return None
    return effect.low, effect.high


def _line(x: float, *, color: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "line": {"color": color, "width": 1.5, "dash": dash},
    }


def _note(x: float, text: str, *, color: str, anchor: str) -> dict[str, Any]:
    return {
        "x": x,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "xanchor": anchor,
        "yanchor": "bottom",
        "showarrow": False,
        "text": text,
        "font": {"color": color, "size": 12},
    }
