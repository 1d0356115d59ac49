"""What import-linter cannot see: hidden imports, loose folders, unnamed migrations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, WINGS, Source, dotted, sources

LAZY = {
    # Loads a command only when it is called, for its start time.
    Path("evalhub/runner/cli.py"),
    # Loads what a lane without a simulator does not install.
    Path("evalhub/runner/commands/simulator.py"),
}


def _eager_sources() -> list[Source]:
    return [source for source in sources(*WINGS) if source.path not in LAZY]


def test_top_level_packages_are_the_known_ones() -> None:
    found = {init.parent.name for init in ROOT.glob("[!.]*/__init__.py")}

    assert found == {*WINGS, "tests"}


def test_each_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for top in (*WINGS, "tests") for path in (ROOT / top).rglob("*.py")}

    assert [
        str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").exists()
    ] == []


def test_nothing_is_imported_by_a_string() -> None:
    calls = [
        f"{source.path}:{node.lineno}"
        for source in _eager_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and dotted(node.func).split(".")[-1] in {"__import__", "import_module", "import_string"}
    ]

    assert calls == []


def test_nothing_is_imported_inside_a_function() -> None:
    imports = [
        f"{source.path}:{node.lineno}"
        for source in _eager_sources()
        for function in ast.walk(source.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    assert imports == []


def _migrations() -> Iterator[Path]:
    for wing in WINGS:
        yield from (ROOT / wing).rglob("migrations/[0-9]*.py")


def test_migrations_are_named_for_their_change() -> None:
    assert [path.name for path in _migrations() if "_auto_" in path.name] == []


@pytest.mark.parametrize("path", list(_migrations()), ids=lambda path: path.parts[-3])
def test_each_migration_of_data_has_a_way_back(path: Path) -> None:
    one_way = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and dotted(node.func).endswith(("RunPython", "RunSQL"))
        and len(node.args) + len(node.keywords) < 2
    ]

    assert one_way == []
