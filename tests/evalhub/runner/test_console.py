"""What reaches a terminal."""

import doctest

import pytest

from evalhub.runner import console, fingerprints
from evalhub.runner.console import escaped, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\r\x1b[2K", r"\r\x1b[2K"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edcb", r"abc\u202edcb"),
        ("a\u200bb", r"a\u200bb"),
        ("::set-output name=x::1", ": :set-output name=x::1"),
        ("fine\n  ::error::no", "fine\n  : :error::no"),
        ("##[error]no", "# #[error]no"),
        ("über naïve 日本", "über naïve 日本"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_escaped_neutralizes_what_terminals_and_ci_logs_obey(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_table_keeps_a_hostile_cell_on_its_line() -> None:
    assert table(["a"], [["x\ny\x1b"]]).splitlines() == ["a", "x y\\x1b"]


@pytest.mark.parametrize("module", [console, fingerprints])
def test_examples_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
