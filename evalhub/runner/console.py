"""What commands say to a person or a script. Nothing else here writes to a terminal."""

import json
import re
import sys
from collections.abc import Sequence

_UNPRINTABLE = re.compile(
    # Controls but newline and tab; marks that reorder or hide text; line separators.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
# What GitHub's runner takes for a command when it reads a job's output.
_WORKFLOW_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


def escaped(text: str) -> str:
    r"""Return text that a terminal and a CI log show as it is, whoever wrote it.

    >>> escaped("red \x1b[31m, tab\t")
    'red \\x1b[31m, tab\t'
    >>> escaped("::add-mask::x")
    ': :add-mask::x'
    """
    shown = _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)
    return _WORKFLOW_COMMAND.sub(r"\1: ", shown).replace("##[", "# #[")


def say(text: str = "") -> None:
    """Write one line for the person who ran the command."""
    sys.stdout.write(escaped(text) + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write one line about something that is wrong."""
    sys.stderr.write(escaped(text) + "\n")
    sys.stderr.flush()


def say_json(document: object) -> None:
    """Write a document for a script. ASCII, so that no terminal reads anything into it."""
    sys.stdout.write(json.dumps(document, indent=1, default=str) + "\n")
    sys.stdout.flush()


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows below their headers in columns; None is shown as a dash.

    >>> print(table(["lane", "runs"], [["ordinary-1", 12], ["memory-1", None]]))
    lane        runs
    ordinary-1  12
    memory-1    -
    """
    cells = [list(headers)] + [["-" if v is None else _one_line(v) for v in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def _one_line(value: object) -> str:
    return escaped(str(value)).replace("\n", " ").replace("\t", " ")
