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


def _settings_read() -> list[ast.Call]:
    """Return the calls by which settings read the environment."""
    (settings,) = [s for s in sources("evalhub") if str(s.path) == "evalhub/settings.py"]
    calls = [node for node in ast.walk(settings.tree) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if dotted(call.func).startswith("env_") and isinstance(call.args[0], ast.Constant)
    ]


def _name(call: ast.Call) -> object:
    name = call.args[0]
    assert isinstance(name, ast.Constant)
    return name.value


def test_table_of_settings_equals_what_settings_read() -> None:
    assert first_column("Settings") == {_name(call) for call in _settings_read()}


def test_defaults_in_the_table_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", README, flags=re.MULTILINE)
    told = dict(rows)
    defaults = {
        _name(call): given.value
        for call in _settings_read()
        for given in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "default")]
        if isinstance(given, ast.Constant)
    }

    compared = told.keys() & defaults.keys()
    assert len(compared) > 8
    assert {name: told[name] for name in compared} == {
        name: str(defaults[name]).lower() if defaults[name] is False else str(defaults[name])
        for name in compared
    }


def test_secrets_that_a_file_may_hold_are_all_named() -> None:
    (sentence,) = [line for line in README.splitlines() if line.startswith("Secrets (`")]
    in_files = {
        _name(call)
        for call in _settings_read()
        if dotted(call.func) in {"env_secret", "env_database", "env_mail_server", "env_broker"}
    }

    named = set(re.findall(r"`([A-Z_0-9]+)`", sentence)) - {"NAME_FILE"}
    assert named == in_files
