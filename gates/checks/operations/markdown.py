"""Markdown for GitHub out of text that nobody here trusts.

GitHub links mentions, issues and addresses in the rendered page, after it has decoded entities and
escapes. So names from outside go into code spans, which it leaves alone, and sentences get an
invisible break inside whatever it would link. Every construct made here is one line long: a cut
between two lines never leaves something open.
"""

import re
import unicodedata

LARGEST_BYTES = 65_535
"""What GitHub takes in a summary or text. Documented as characters, enforced in bytes."""
_LONGEST_NAME = 200
_BREAK = "\u200b"
_SPECIAL = re.compile(r"([\\`*_\[\]~$])")
# What makes a list, a heading or a rule of a line, behind a list's own mark too.
_LINE_MARK = re.compile(r"^([-+#=]|\d+(?=[.)]))")
_LINKED = re.compile(r"(@|#|:(?=//)|www(?=\.)|\bGH(?=-))", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def code(text: str) -> str:
    """Return `text` as a code span that fits a table cell.

    >>> code("refund-twice")
    '`refund-twice`'
    >>> code("`@all` | ![x](//y)")
    '`` `@all` ¦ ![x](//y) ``'
    """
    plain = _one_line(text)
    if not plain:
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", plain)), default=0) + 1)
    space = " " if "`" in plain else ""
    return f"{fence}{space}{plain}{space}{fence}"


def prose(text: str) -> str:
    r"""Return a sentence with names from outside in it as text without any markup or link.

    >>> print(prose("[a](b) <img> | c"))
    \[a\](b) &lt;img&gt; ¦ c
    """
    broken = _LINKED.sub(rf"\1{_BREAK}", _one_line(text, longest=2000))
    escaped = _SPECIAL.sub(r"\\\1", broken).translate(_ENTITIES)
    return _LINE_MARK.sub(_unmarked, escaped)


def _unmarked(mark: re.Match[str]) -> str:
    # A digit cannot be escaped; behind an invisible break it begins no line.
    return f"{_BREAK}{mark[0]}" if mark[0].isdecimal() else f"\\{mark[0]}"


def row(*cells: str) -> str:
    """Return one line of a table; the cells are Markdown already, without `|`."""
    return f"| {' | '.join(cells)} |"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table with a blank one after it; none at all without rows."""
    if not rows:
        return []
    return [row(*head), row(*("---" for _ in head)), *(row(*cells) for cells in rows), ""]


def cut(lines: list[str], *, rest_url: str) -> str:
    """Return the lines as one text that GitHub takes; what is left out is linked."""
    whole = "\n".join(lines)
    if len(whole.encode()) <= LARGEST_BYTES:
        return whole
    tail = f"\nThis is not all of it: [the rest]({rest_url})"
    left = LARGEST_BYTES - len(tail.encode())
    kept: list[str] = []
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([*kept, tail])


def _one_line(text: str, *, longest: int = _LONGEST_NAME) -> str:
    """Return `text` without controls, invisible direction marks, table breaks and surplus length."""
    shown = "".join(_visible(character) for character in text)
    shown = " ".join(shown.replace("|", "¦").split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in {"Cc", "Zl", "Zp"}:
        return " "
    # Formatting marks can turn a line around; surrogates cannot be sent at all.
    return "\ufffd" if category in {"Cf", "Cs"} else character
