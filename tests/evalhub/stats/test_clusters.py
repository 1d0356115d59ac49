import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.clusters import clustered_mean, design_effect
from tests.evalhub.stats.make import quick


def test_clustered_mean_agrees_with_inspect_ai() -> None:
    # Inspect AI, tests/scorer/test_metric.py, test_clustered_stderr: value i in cluster i % 4;
    # their bound for the clustered stderr of 0..19 is 0.645 (CR1).
    values = [float(index) for index in range(20)]

    result = clustered_mean(values, clusters=[str(index % 4) for index in range(20)])

    assert result.mean == 9.5
    assert result.se_cr1 == pytest.approx(0.645, abs=5e-4)
    assert result.se_cr0 == pytest.approx(0.5590, abs=5e-5)
    assert result.clusters == 4


def test_clustered_mean_of_single_runs_is_the_plain_error() -> None:
    values = [0.1, 0.5, 0.3, 0.9, 0.4]

    result = clustered_mean(values, clusters=list("abcde"))

    assert result.se_cr1 == pytest.approx(result.se_iid)
    assert result.deff == pytest.approx(1.0)


def test_clustered_mean_says_what_is_not_defined() -> None:
    one_cluster = clustered_mean([0.1, 0.3], clusters=["a", "a"])
    one_value = clustered_mean([0.1], clusters=["a"])
    constant = clustered_mean([0.1, 0.1], clusters=["a", "b"])

    assert (one_cluster.se_cr1, one_cluster.deff) == (None, None)
    assert (one_value.se_cr1, one_value.se_iid) == (None, None)
    assert constant.deff is None


def test_design_effect_falls_back_to_the_runs_where_nothing_varies() -> None:
    assert design_effect([3, 3, 3], runs=[3, 3, 3]) == 3.0
    assert design_effect([0, 0], runs=[5, 2]) == 5.0


@quick
@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
def test_design_effect_lies_between_one_and_the_runs(passes: list[int]) -> None:
    assert 1.0 <= design_effect(passes, runs=[5] * len(passes)) <= 5.0


def test_clusters_refuse_what_has_none() -> None:
    with pytest.raises(ValueError, match="as many cluster names"):
        clustered_mean([], clusters=[])
    with pytest.raises(ValueError, match="two scenarios"):
        design_effect([1], runs=[1])
    with pytest.raises(ValueError, match="each with a run"):
        design_effect([0, 0], runs=[0, 1])
