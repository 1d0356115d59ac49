"""The runs of a lane when its time is over. The clock of the lane begins with the test."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evalhub.runner import clock
from evalhub.runner.execution import Assignment, Execution
from evalhub.runner.lane_log import LaneLog
from evalhub.runner.room import Room
from evalhub.runner.spool import Spool
from tests.evalhub.runner.alive import eventually, is_alive
from tests.evalhub.runner.documents import make_scenario, make_suite
from tests.evalhub.runner.test_spool import make_spool

pytestmark = pytest.mark.slow

PROGRAM = (
    "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(300)"
)


@contextmanager
def started(spool: Spool, folder: Path, *, seconds: float, said: list[str]) -> Iterator[Execution]:
    """Start the runs of a lane that has so many seconds left."""
    log = LaneLog(spool, report=said.append)
    deadline = time.monotonic() + seconds
    script = f'cd {folder}; exec {sys.executable} -c "{PROGRAM}"'
    assignment = Assignment(
        spool=spool,
        log=log,
        command=["sh", "-c", script],
        environment={},
        deadline=deadline,
        flush_seconds=1.0,
        stamp=clock.now,
        room=Room(spool.folder, deadline=deadline, report=said.append, is_over=lambda: False),
        on_cut=lambda: None,
        report=said.append,
    )
    execution = Execution(assignment, spool.lane.run_keys, jobs=1)
    execution.start()
    yield execution
    assert eventually(execution.is_over)
    log.close()


def test_the_lanes_time_ends_what_runs_and_skips_the_rest(tmp_path: Path) -> None:
    spool = make_spool(
        tmp_path / "s", suite=make_suite(make_scenario("a"), make_scenario("b")), lanes=1
    )
    said: list[str] = []

    with started(spool, tmp_path, seconds=3.0, said=said) as execution:
        assert eventually(execution.is_over)

    assert execution.outcomes == {"timeout": 1, "skipped": 1}
    assert spool.has("runs/a/candidate/1/result.json")
    assert not is_alive(int((tmp_path / "pid").read_text()))
    assert said == []


def test_a_spool_that_takes_no_more_ends_the_lane_in_a_sentence(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    (tmp_path / "s" / "segments").rmdir()

    with started(spool, tmp_path, seconds=0.0, said=[]) as execution:
        assert eventually(execution.is_over)

    assert "cannot be written" in str(execution.failure)
    assert execution.outcomes == {}
