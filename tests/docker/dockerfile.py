"""Dockerfiles as data: their stages and instructions, and what of the repository reaches a build."""

import fnmatch
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.architecture.sources import ROOT

# Of the base image.
_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Instruction(NamedTuple):
    """One instruction; `arguments` has its flags and its text, with ARGs filled in."""

    name: str
    arguments: str

    @property
    def words(self) -> list[str]:
        """The arguments of the JSON form, or what stands between spaces."""
        if self.arguments.startswith("["):
            return [str(word) for word in json.loads(self.arguments)]
        return shlex.split(self.arguments)

    @property
    def flags(self) -> dict[str, str]:
        pairs = (word[2:].partition("=") for word in self.words if word.startswith("--"))
        return {name: value for name, _, value in pairs}

    @property
    def operands(self) -> list[str]:
        return [word for word in self.words if not word.startswith("--")]


class Stage(NamedTuple):
    """What stands between two FROMs."""

    name: str
    base: str
    instructions: list[Instruction]

    def all(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def last(self, name: str) -> Instruction:
        return self.all(name)[-1]

    @property
    def environment(self) -> dict[str, str]:
        """The ENV of the stage; `$PATH` stands for that of the base image."""
        pairs = [word.partition("=") for each in self.all("ENV") for word in each.words]
        return {name: value.replace("$PATH", _BASE_PATH) for name, _, value in pairs}


def stages(path: Path) -> list[Stage]:
    """Read a Dockerfile: continued lines joined, comments dropped, ARGs at their defaults."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for line in lines:
        name, _, rest = line.partition(" ")
        for key, value in arguments.items():
            rest = rest.replace(f"${{{key}}}", value)
        if name == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value
        elif name == "FROM":
            base, _, stage = rest.partition(" AS ")
            found.append(Stage(stage, base, []))
        else:
            found[-1].instructions.append(Instruction(name, rest.strip()))
    return found


def build_context() -> list[Path]:
    """Return the committed files that .dockerignore lets through, below the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    return [Path(name) for name in listed.stdout.splitlines() if not _is_ignored(name, rules)]


def _is_ignored(name: str, rules: list[str]) -> bool:
    """Apply the rules as Docker does: the last one that matches the file or a folder above it."""
    ignored = False
    places = [str(place) for place in [Path(name), *Path(name).parents][:-1]]
    for rule in rules:
        pattern = rule.lstrip("!").removeprefix("**/")
        if not pattern or rule.startswith("#"):
            continue
        anywhere = "**/" in rule
        names = [place.rsplit("/", 1)[-1] if anywhere else place for place in places]
        if any(fnmatch.fnmatchcase(each, pattern) for each in names):
            ignored = not rule.startswith("!")
    return ignored
