"""README says what is there, no more and no less."""

import ast
import re

from tests.architecture.sources import ROOT, WINGS, dotted, sources

README = (ROOT / "README.md").read_text()


def first_column(heading: str) -> set[str]:
    """Return the code words of the first column of the tables below a heading."""
    section = re.split(rf"^#+ {heading}$", README, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_map_names_every_package() -> None:
    packages = {
        f"{wing}/{init.parent.name}"
        for wing in WINGS
        for init in (ROOT / wing).glob("*/__init__.py")
    }

    mapped = {name for name in first_column("Map of the house") if name.split("/")[0] in WINGS}

    assert mapped == packages


def test_table_of_settings_equals_what_settings_read() -> None:
    (settings,) = [s for s in sources("evalhub") if str(s.path) == "evalhub/settings.py"]
    calls = [node for node in ast.walk(settings.tree) if isinstance(node, ast.Call)]
    read = {
        call.args[0].value
        for call in calls
        if dotted(call.func).startswith("env_") and isinstance(call.args[0], ast.Constant)
    }

    assert first_column("Settings") == read
