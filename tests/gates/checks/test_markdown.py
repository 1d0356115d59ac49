"""Text from outside in check Markdown: nothing of it links, renders or breaks what is around it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gates.checks.operations.markdown import LARGEST_BYTES, code, cut, prose, table

HOSTILE = [
    "@maintainers please approve",
    "see #1 and GH-2 and acme/agent#3",
    "https://evil.example/x and www.evil.example",
    "mail me@evil.example",
    "![pixel](https://evil.example/p.png)",
    "[click](https://evil.example)",
    "[ref]: https://evil.example",
    "<img src=x onerror=alert(1)>",
    "<details open><summary>ok</summary>",
    "<!-- hidden",
    "a | b | c",
    r"a \| b",
    "a `code` b",
    "``` fence",
    "`",
    "line one\nline two\r\n# heading",
    "\u202egnp.exe and \u2066isolate",
    "**bold** _it_ ~~gone~~ ^up^ $x$",
    "&#64;all &lt;b&gt;",
    "\\",
    "trailing\\",
    "",
    "\x07\x1b[31m",
    "- item",
    "+ item",
    "1. item",
    "2) item",
    "# heading",
    "===",
    "---",
    "> quote",
]
# CommonMark with HTML let through, and the tables and strikethrough of GitHub. What GitHub makes of
# bare addresses, mentions and issues afterwards is looked for in the text.
_GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _rendered(line: str) -> str:
    return str(_GITHUB.render(line))


def _text_outside_code(html: str) -> str:
    return re.sub(r"<[^>]+>", "", re.sub(r"<code>.*?</code>", "", html))


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("write", [code, prose])
def test_hostile_text_renders_as_text_in_its_own_cell(write: object, hostile: str) -> None:
    assert callable(write)
    lines = table(["A", "B", "C"], [[write(hostile), write(hostile), "end"]])

    html = _rendered("\n".join(lines))

    assert html.count("<td>") == 3
    assert "<td>end</td>" in html
    assert not re.search(r"<(a|img|h1|em|strong|s|details|script|!--)\b", html)
    shown = _text_outside_code(html)
    # GitHub links these after rendering, wherever they are not inside code.
    assert not re.search(r"@\w|#\d|\bGH-\d|://|www\.", shown)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_inside_its_list_entry(hostile: str) -> None:
    html = _rendered(f"- {prose(hostile)} {code(hostile)}\n- end")

    assert html.count("<li>") == 2
    assert "<li>end</li>" in html


@given(st.text(max_size=300))
def test_any_text_keeps_a_table_whole(text: str) -> None:
    html = _rendered("\n".join(table(["A", "B"], [[code(text), prose(text)]])))

    assert html.count("<tr>") == 2
    assert html.count("<td>") == 2
    assert "<a" not in html


def test_control_characters_vanish() -> None:
    assert code("a\x00b\x1b[31m") == "`a b [31m`"


def test_harmless_names_are_written_as_they_are() -> None:
    assert code("candidate+faults") == "`candidate+faults`"
    assert _rendered(prose("resolved is worse by 0.14 (0.08 to 0.21)")) == (
        "<p>resolved is worse by 0.14 (0.08 to 0.21)</p>\n"
    )


def test_long_names_are_shortened() -> None:
    assert code("x" * 5000) == f"`{'x' * 199}…`"


def test_short_text_is_not_cut() -> None:
    assert cut(["one", "two"], rest_url="https://e/p") == "one\ntwo"


@pytest.mark.parametrize("character", ["x", "é", "語", "🧾"])
def test_long_text_is_cut_between_lines_and_links_the_rest(character: str) -> None:
    lines = [f"- {i} {character * 80}" for i in range(2000)]

    text = cut(lines, rest_url="https://evalhub.example/plans/p/")

    assert len(text.encode()) <= LARGEST_BYTES
    *kept, blank, last = text.split("\n")
    assert kept == lines[: len(kept)]
    assert blank == ""
    assert last == "This is not all of it: [the rest](https://evalhub.example/plans/p/)"
    # Not a line less than fits.
    assert len(text.encode()) + len(lines[len(kept)].encode()) >= LARGEST_BYTES


@given(st.lists(st.text(alphabet="aé語🧾", max_size=40_000), max_size=6))
def test_cut_never_exceeds_what_github_takes(lines: list[str]) -> None:
    assert len(cut(lines, rest_url="https://e/p").encode()) <= LARGEST_BYTES
