import pytest

from evalhub.stats.missing import missingness


def test_missing_more_than_allowed_caps() -> None:
    gaps = missingness(expected_b=100, missing_b=6, expected_c=100, missing_c=6, max_missing=0.05)

    assert gaps.caps
    assert gaps.share_candidate == 0.06


def test_missing_more_in_the_candidate_than_chance_caps() -> None:
    # Fisher one-sided for 0 of 500 against 5 of 500: about (1/2)^5 = 0.031
    gaps = missingness(expected_b=500, missing_b=0, expected_c=500, missing_c=5, max_missing=0.05)

    assert gaps.p_informative == pytest.approx(0.031, abs=5e-4)
    assert gaps.caps


def test_missing_more_in_the_baseline_is_not_informative() -> None:
    gaps = missingness(expected_b=500, missing_b=9, expected_c=500, missing_c=0, max_missing=0.05)

    assert (gaps.p_informative, gaps.caps) == (1.0, False)


def test_missingness_refuses_impossible_counts() -> None:
    with pytest.raises(ValueError, match="not counts"):
        missingness(expected_b=1, missing_b=2, expected_c=1, missing_c=0, max_missing=0.05)
    with pytest.raises(ValueError, match="no runs"):
        missingness(expected_b=0, missing_b=0, expected_c=1, missing_c=0, max_missing=0.05)
