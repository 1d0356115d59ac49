"""What every test may count on: a database of choice, known tasks, an object store of its own."""

import os
from pathlib import Path

import hypothesis
import pytest
from pytest_django import Settings

from evalhub.tasks.app import app

pytest_plugins = ["tests.programs.session"]

# A deadline would fail a test for a busy machine. In CI the same examples every time, so that a red
# build is the change's doing; at a desk new ones, so that they go on searching.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("desk", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Register all tasks wherever there is a database: eager tasks must run what they enqueue."""
    app.loader.import_default_modules()


@pytest.fixture(autouse=True)
def objects_dir(settings: Settings, tmp_path: Path) -> Path:
    """Give each test an object store that nobody has written to."""
    settings.OBJECTS_DIR = tmp_path / "objects"
    return tmp_path / "objects"
