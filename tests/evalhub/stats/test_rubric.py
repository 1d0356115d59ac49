import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.rubric import Direction, Scale
from tests.evalhub.stats.make import make_binary, make_continuous, make_tail, quick

LOWER = Direction.LOWER_IS_BETTER


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"min_effect": 0.0}, "min_effect 0.0"),
        ({"ni_margin": -1.0}, "ni_margin -1.0"),
        ({"alpha": 1.0}, "alpha 1.0"),
        ({"max_missing": 1.5}, "max_missing 1.5"),
        ({"scale": Scale(1.0, 0.0)}, "low < high"),
        ({"scale": Scale(0.0, float("inf"))}, "low < high"),
        ({"abs_floor": float("nan")}, "abs_floor nan"),
    ],
)
def test_mean_rubric_refuses_what_no_comparison_could_use(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make_continuous(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": 1.0}, "q 1.0"),
        ({"ni_tol": 0.0}, "ni_tol 0.0"),
        ({"rel_tol": -0.1}, "rel_tol -0.1"),
        ({"abs_tol": float("inf")}, "abs_tol inf"),
        ({"ceiling": float("nan")}, "ceiling nan"),
    ],
)
def test_tail_rubric_refuses_what_no_comparison_could_use(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make_tail(**changes)


def test_margin_is_the_floor_unless_given() -> None:
    assert make_continuous().margin == 0.05
    assert make_continuous(ni_margin=0.02).margin == 0.02


def test_goodness_limits_put_the_worst_first() -> None:
    assert make_continuous(scale=Scale(0, 10), direction=LOWER).goodness_limits == (-10, 0)
    assert make_binary(direction=LOWER).goodness_limits == (0, 1)
    assert make_continuous(scale=None).goodness_limits is None


@quick
@given(st.floats(0, 1))
def test_goodness_undoes_itself(value: float) -> None:
    for rubric in (make_binary(direction=LOWER), make_continuous(direction=LOWER), make_binary()):
        assert rubric.goodness(rubric.goodness(value)) == pytest.approx(value)
