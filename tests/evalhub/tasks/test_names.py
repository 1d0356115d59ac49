"""Each task has a name, an owner and, if it is a sweep, a place in beat's schedule."""

import pytest

from evalhub.tasks.app import app
from evalhub.tasks.names import SWEEPS, TaskName


@pytest.mark.parametrize("name", list(TaskName))
def test_each_task_name_has_a_registered_task(name: TaskName) -> None:
    app.loader.import_default_modules()

    assert name.value in app.tasks


def test_each_sweep_is_asked_for_by_beat() -> None:
    scheduled = {entry["task"] for entry in app.conf.beat_schedule.values()}

    assert scheduled == {name.value for name in SWEEPS}
    assert all(name.name.startswith("SWEEP_") == (name in SWEEPS) for name in TaskName)
