"""Values are written one way on all pages, and no data is never 0."""

import doctest
from datetime import UTC, datetime

import pytest

from evalhub.web.templatetags import formatting


def test_examples_in_docstrings_hold() -> None:
    result = doctest.testmod(formatting)

    assert result.failed == 0 < result.attempted


@pytest.mark.parametrize(
    "write",
    [
        formatting.percent,
        formatting.number,
        formatting.signed,
        formatting.interval,
        formatting.duration,
        formatting.short,
        formatting.moment,
    ],
)
def test_no_data_is_a_dash(write: object) -> None:
    assert callable(write)
    assert write(None) == "–"


def test_unknown_money_is_no_zero() -> None:
    assert formatting.microusd(None) == "unknown"
    assert formatting.microusd(0) == "$0.00"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_number_that_is_none_is_a_dash(value: float) -> None:
    assert formatting.number(value) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000_012_345, "0.00001234"),
        (999_999, "999,999"),
        (-0.5, "−0.5"),
        (1e15, "1,000,000,000,000,000"),
    ],
)
def test_number_keeps_what_says_something(value: float, text: str) -> None:
    assert formatting.number(value) == text


def test_moment_has_the_exact_time_for_machines() -> None:
    html = formatting.moment(datetime(2026, 11, 29, 12, 0, 31, tzinfo=UTC))

    assert 'datetime="2026-11-29T12:00:31Z"' in html
    assert ">2026-11-29 12:00 UTC<" in html


def test_badge_is_icon_word_and_tone() -> None:
    html = formatting.badge("REGRESSION")

    assert 'data-tone="bad"' in html
    assert "<svg" in html
    assert "Regression" in html


def test_badge_of_an_unknown_word_is_escaped() -> None:
    assert "<script>" not in formatting.badge("<script>alert(1)</script>")


def test_visible_leaves_ordinary_text_alone() -> None:
    text = "né à Zürich, 日本語, עברית, 👩‍💻\n\ttabs and lines"

    assert formatting.visible(text) == text


@pytest.mark.parametrize("code", [0x00, 0x1B, 0x7F, 0x9B, 0x200B, 0x202E, 0x2066, 0xFEFF])
def test_visible_names_what_hides_or_reorders(code: int) -> None:
    assert formatting.visible(f"a{chr(code)}b") == f"a⟦U+{code:04X}⟧b"
