"""The wheel carries the lane side alone, and the lane side runs where there is no server."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

pytestmark = pytest.mark.journey

TRAVELS = ("evalhub/__init__.py", "evalhub/protocol/", "evalhub/stats/", "evalhub/runner/")
# Run before anything else by any Python that finds it: the server's packages do not exist.
BLOCKER = """
import sys

class ServerIsNotHere:
    names = {"django", "rest_framework", "celery", "boto3", "lanes", "evidence", "gates"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} was not installed with the lane side", name=name)

sys.meta_path.insert(0, ServerIsNotHere())
"""
IMPORT_ALL = """
import pkgutil, importlib, evalhub
names = [m.name for m in pkgutil.walk_packages(evalhub.__path__, "evalhub.") if "__main__" not in m.name]
for name in names:
    importlib.import_module(name)
print(evalhub.__file__, len(names))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("evalhub-*.whl")
    return built


@pytest.fixture(scope="module")
def lane_machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the wheel is installed and no package of the server exists."""
    installed = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(installed), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    (blocked := tmp_path_factory.mktemp("blocked")).joinpath("sitecustomize.py").write_text(BLOCKER)
    # Before the virtual environment's own packages, which hold the third parts that the lane needs.
    path = os.pathsep.join([str(installed), str(blocked)])
    return {"PATH": f"{installed}/bin", "PYTHONPATH": path, "HOME": str(blocked)}


def _run(*command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_wheel_contains_the_lane_side_alone(wheel: Path) -> None:
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]

    assert [name for name in names if not name.startswith(TRAVELS)] == []
    assert all(any(name.startswith(part) for name in names) for part in TRAVELS)


def test_help_runs_where_django_cannot_be_imported(lane_machine: dict[str, str]) -> None:
    django = _run("-c", "import django", environment=lane_machine)
    command = f"{lane_machine['PATH']}/evalhub"

    answer = _run(command, "--help", environment=lane_machine)

    assert "was not installed with the lane side" in django.stderr
    assert answer.returncode == 0, answer.stderr
    assert "plan" in answer.stdout
    assert "lane" in answer.stdout


def test_every_module_of_the_wheel_imports_without_the_server(
    lane_machine: dict[str, str],
) -> None:
    answer = _run("-c", IMPORT_ALL, environment=lane_machine)

    assert answer.returncode == 0, answer.stderr
    imported, count = answer.stdout.split()
    assert imported.startswith(lane_machine["PYTHONPATH"].split(os.pathsep)[0])
    assert int(count) > 20
