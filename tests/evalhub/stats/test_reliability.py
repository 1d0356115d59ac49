from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats import reliability
from evalhub.stats.reliability import JudgedRun
from tests.evalhub.stats.make import quick

# Shrout and Fleiss (1979), table 2: six targets, four judges.
SHROUT_FLEISS = [
    [9, 2, 5, 8],
    [6, 1, 3, 2],
    [8, 4, 6, 8],
    [7, 1, 2, 6],
    [10, 5, 6, 9],
    [6, 2, 4, 7],
]

# Davies and Goldsmith (1972), Pastes in R's lme4: casks a, b, c of batches A to J, assayed twice.
PASTES = [
    62.8, 62.6, 60.1, 62.3, 62.7, 63.1, 60.0, 61.4, 57.5, 56.9, 61.1, 58.9,
    58.7, 57.5, 63.9, 63.1, 65.4, 63.7, 57.1, 56.4, 56.9, 58.6, 64.7, 64.5,
    55.1, 55.1, 54.7, 54.2, 58.8, 57.5, 63.4, 64.9, 59.3, 58.1, 60.5, 60.0,
    62.5, 62.6, 61.0, 58.7, 56.9, 57.7, 59.2, 59.4, 65.2, 66.0, 64.8, 64.1,
    54.8, 54.8, 64.0, 64.0, 57.7, 56.8, 58.3, 59.3, 59.2, 59.2, 58.9, 56.6,
]  # fmt: skip

# Montgomery, Design and Analysis of Experiments, purity of raw material: suppliers and batches.
PURITY = [
    [[1, -1, 0], [-2, -3, -4], [-2, 0, 1], [1, 4, 0]],
    [[1, -2, -3], [0, 4, 2], [-1, 0, -2], [0, 3, 2]],
    [[2, 4, 0], [-2, 0, 2], [1, -1, 2], [3, 2, 1]],
]


def judged(cells: Sequence[Sequence[Sequence[float]]]) -> list[JudgedRun]:
    return [
        JudgedRun(str(scenario), str(run), value)
        for scenario, runs in enumerate(cells)
        for run, repeats in enumerate(runs)
        for value in repeats
    ]


def test_nested_components_agree_with_lme4_on_pastes() -> None:
    # lmer REML (equal to the analysis of variance as the data are balanced): 1.657, 8.434, 0.678
    names = [(batch, cask) for batch, cask, _ in product("ABCDEFGHIJ", "abc", "12")]
    rows = [JudgedRun(*name, value) for name, value in zip(names, PASTES, strict=True)]

    assert reliability.nested_components(rows).raw == pytest.approx((1.657, 8.434, 0.678), abs=5e-4)


def test_nested_components_agree_with_montgomery() -> None:
    # Table 14.4: mean squares 7.53, 7.77, 2.64; variance of batches 1.71; suppliers below 0
    result = reliability.nested_components(judged(PURITY))

    assert result.mean_squares == pytest.approx((7.53, 7.77, 2.64), abs=5e-3)
    assert result.raw[0] == pytest.approx(-0.02, abs=5e-3)
    assert result.truncated[0] == 0.0
    assert result.truncated[1] == pytest.approx(1.71, abs=5e-3)


def test_nested_components_say_what_is_not_defined() -> None:
    one = reliability.nested_components([JudgedRun("a", "1", 0.5)])
    single_judgments = reliability.nested_components(judged([[[0.1], [0.2]], [[0.3], [0.4]]]))

    assert one.raw == (None, None, None)
    assert single_judgments.raw == (None, None, None)
    with pytest.raises(ValueError, match="no variance"):
        reliability.nested_components([])


def test_one_way_agrees_with_shrout_and_fleiss() -> None:
    # ICC(1,1) = .17 and ICC(1,4) = .44 in their table 4
    result = reliability.one_way(SHROUT_FLEISS)

    assert result.icc1 == pytest.approx(0.17, abs=5e-3)
    assert result.icc1 is not None
    assert reliability.spearman_brown(result.icc1, repeats=4) == pytest.approx(0.44, abs=5e-3)


def test_one_way_agrees_with_lme4_on_dyestuff() -> None:
    # Davies (1949), Dyestuff in R's lme4: batch 1764.05, residual 2451.25
    yields = [
        [1545, 1440, 1440, 1520, 1580], [1540, 1555, 1490, 1560, 1495],
        [1595, 1550, 1605, 1510, 1560], [1445, 1440, 1595, 1465, 1545],
        [1595, 1630, 1515, 1635, 1625], [1520, 1455, 1450, 1480, 1445],
    ]  # fmt: skip

    result = reliability.one_way(yields)

    assert result.var_between == pytest.approx(1764.05, abs=5e-3)
    assert result.var_within == pytest.approx(2451.25, abs=5e-3)


def test_one_way_of_constants_has_no_reliability() -> None:
    assert reliability.one_way([[1.0, 1.0], [1.0, 1.0]]).icc1 is None
    with pytest.raises(ValueError, match="two targets"):
        reliability.one_way([[1.0, 2.0]])
    with pytest.raises(ValueError, match="judged twice"):
        reliability.one_way([[1.0], [2.0]])


def test_cohen_kappa_agrees_with_sas() -> None:
    # SAS/STAT FREQ example in statsmodels' tests: kappa .4842, ASE .1380
    result = reliability.cohen_kappa([[0, 4, 1], [0, 8, 0], [0, 1, 5]])

    assert result == pytest.approx((0.4842, 0.1380), abs=5e-5)
    assert reliability.cohen_kappa([[5, 0], [0, 0]]) == (None, None)
    with pytest.raises(ValueError, match="square table"):
        reliability.cohen_kappa([[1, 2, 3], [1, 2, 3]])


def test_fleiss_kappa_agrees_with_its_textbook_example() -> None:
    # Fleiss (1971), as worked on Wikipedia: ten subjects, fourteen raters, kappa 0.210
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip

    assert reliability.fleiss_kappa(counts).kappa == pytest.approx(0.210, abs=5e-4)
    assert reliability.fleiss_kappa([[3, 0], [3, 0]]) == (None, None)
    with pytest.raises(ValueError, match="same number of judges"):
        reliability.fleiss_kappa([[3, 0], [1, 0]])
    with pytest.raises(ValueError, match="same number of judges"):
        reliability.fleiss_kappa([])


def test_flip_rate_counts_disagreeing_pairs() -> None:
    # 2 of 3 passes: two of three pairs disagree.
    assert reliability.flip_rate([2, 3, 0], judged=[3, 3, 1]) == pytest.approx((2 / 3 + 0) / 2)
    assert reliability.flip_rate([1], judged=[1]) is None
    with pytest.raises(ValueError, match="number of judgments"):
        reliability.flip_rate([4], judged=[3])
    with pytest.raises(ValueError, match="number of judgments"):
        reliability.flip_rate([1, 1], judged=[3])


@quick
@given(st.floats(0.01, 0.99), st.integers(1, 20))
def test_more_repeats_are_more_reliable(icc: float, repeats: int) -> None:
    fewer = reliability.spearman_brown(icc, repeats=repeats)

    assert icc <= fewer + 1e-12 <= reliability.spearman_brown(icc, repeats=repeats + 1) + 2e-12
    with pytest.raises(ValueError, match="no reliability"):
        reliability.spearman_brown(icc, repeats=0)
