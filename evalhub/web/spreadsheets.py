"""CSV that a spreadsheet shows and never runs."""

import csv
import io
from collections.abc import Iterable, Iterator

# What spreadsheets take for the beginning of a formula; some also after blanks that they skip.
_LIVE = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_lines(rows: Iterable[Iterable[str]]) -> Iterator[bytes]:
    r"""Yield each row as a line of CSV in UTF-8, with every cell that could be a formula made text.

    >>> list(csv_lines([["when", "=HYPERLINK(1)"]]))
    [b"when,'=HYPERLINK(1)\r\n"]
    """
    line = io.StringIO()
    writer = csv.writer(line)
    for row in rows:
        writer.writerow([plain_cell(cell) for cell in row])
        yield line.getvalue().encode(errors="backslashreplace")
        line.seek(0)
        line.truncate()


def plain_cell(text: str) -> str:
    """Return the text of a cell, behind an apostrophe where it could be a formula.

    >>> plain_cell(" @SUM(A1)"), plain_cell("-1"), plain_cell("a-b")
    ("' @SUM(A1)", "'-1", 'a-b')
    """
    is_live = text.startswith(_LIVE) or text.lstrip().startswith(_LIVE)
    return f"'{text}" if is_live else text
