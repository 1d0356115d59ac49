"""The web server is killed in an upload, at each of its steps."""

import os
import signal
from pathlib import Path

import pytest

from tests.faults.evaluations import Evaluation
from tests.faults.house import ScatteredHouse
from tests.faults.relay import is_receipt, is_segment
from tests.programs.processes import descendants, wait_for

pytestmark = pytest.mark.journey


def test_upload_survives_a_kill_at_each_of_its_steps(house: ScatteredHouse, tmp_path: Path) -> None:
    evaluation = Evaluation(house, tmp_path, runs=5)
    steps = [
        # The object is there, no row yet.
        ("s1", is_segment, True),
        # The rows are committed; the receipt's object is not there, and then it is.
        ("s2", is_receipt, False),
        ("s3", is_receipt, True),
    ]
    with evaluation.lane():
        evaluation.wait_for_segments(1)
        for scenario, which, after in steps:
            evaluation.wait_until_written(scenario)
            seen = len(evaluation.receipts())
            house.relay.hold(which, after=after)
            evaluation.open_gate(scenario)
            assert house.relay.held.wait(30), scenario
            kill_serving_process(house)
            house.relay.release()
            evaluation.wait_for_segments(seen + 2)
        evaluation.wait_until_written("s4")
        with house.locked("evidence_store_segment"):
            # In the transaction, and the port goes too.
            evaluation.open_gate("s4")
            assert wait_for(house.is_somebody_waiting, 30)
            house.web.kill()
        house.web.start()
        evaluation.end()

    assert "did not answer" in evaluation.said
    assert "Evidence waits in" in evaluation.said
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def kill_serving_process(house: ScatteredHouse) -> None:
    """Kill the process in which requests are served; gunicorn starts another on the same port."""
    (serving,) = descendants(house.web.process.pid)
    os.kill(serving.pid, signal.SIGKILL)


def test_object_whose_upload_came_to_nothing_is_named(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane():
        evaluation.wait_until_written("s1")
        evaluation.wait_for_segments(2)
        house.relay.hold(is_segment, after=True)
        evaluation.open_gate()
        assert house.relay.held.wait(30)
        evaluation.process.kill()
        kill_serving_process(house)
        house.relay.release()
    found = store_findings(evaluation)
    evaluation.push()

    assert f"{evaluation.digest}/ordinary-1/" in found
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def store_findings(evaluation: Evaluation) -> str:
    """Return what `manage.py check_store` says; that something is wrong makes it fail."""
    try:
        return evaluation.house.manage("check_store", "--plan", evaluation.digest)
    except RuntimeError as failed:
        return str(failed)
