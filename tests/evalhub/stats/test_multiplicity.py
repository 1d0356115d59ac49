import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.multiplicity import benjamini_hochberg, holm
from tests.evalhub.stats.make import quick

# Benjamini and Hochberg (1995), section 3.2: fifteen p of a myocardial infarction trial.
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000,
]  # fmt: skip
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_corrections_agree_with_benjamini_and_hochberg() -> None:
    # The paper: their procedure rejects the first four, Bonferroni-type ones the first three.
    assert sum(p <= 0.05 for p in benjamini_hochberg(THROMBOLYSIS)) == 4
    assert sum(p <= 0.05 for p in holm(THROMBOLYSIS)) == 3


def test_holm_agrees_with_r() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm") is 0.04 0.06 0.06 0.06
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])


@quick
@given(probabilities)
def test_corrections_never_lower_a_p_and_keep_their_order(p: list[float]) -> None:
    for adjusted in (holm(p), benjamini_hochberg(p)):
        assert all(raw <= new + 1e-15 <= 1 + 1e-12 for raw, new in zip(p, adjusted, strict=True))
        ranked = [new for _, new in sorted(zip(p, adjusted, strict=True))]
        assert ranked == sorted(ranked)


@quick
@given(probabilities)
def test_holm_is_stricter_than_benjamini_and_hochberg(p: list[float]) -> None:
    pairs = zip(holm(p), benjamini_hochberg(p), strict=True)

    assert all(family >= discovery - 1e-12 for family, discovery in pairs)


def test_corrections_accept_nothing_and_refuse_nonsense() -> None:
    assert holm([]) == []
    with pytest.raises(ValueError, match="not a probability"):
        holm([0.5, 1.5])
    with pytest.raises(ValueError, match="not a probability"):
        benjamini_hochberg([float("nan")])
