"""The project's own source files, for the tests that read them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WINGS = ("evalhub", "lanes", "evidence", "gates")


class Source(NamedTuple):
    """A module: its path below the root, and its syntax tree."""

    path: Path
    tree: ast.Module

    @property
    def words(self) -> frozenset[str]:
        """The names of its folders and its own, without the ending."""
        return frozenset(self.path.with_suffix("").parts)


def sources(*folders: str) -> Iterator[Source]:
    """Yield every module below some folders, migrations aside."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if "migrations" not in relative.parts:
                yield Source(relative, ast.parse(path.read_text(), str(relative)))


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a name or an attribute of one; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value)}.{attribute}"
    return ""
