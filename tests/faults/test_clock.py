"""The server's clock jumps two hours ahead, and back, while lanes work."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from evalhub.runner import clock as runner_clock
from evalhub.runner.errors import Exit
from tests.faults.evaluations import Evaluation
from tests.faults.house import OneMachine, ScatteredHouse
from tests.faults.shifted_clock import ShiftedClock
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey

TWO_HOURS = timedelta(hours=2)


def test_jumps_while_a_lane_works_leave_nothing_behind(
    machine: OneMachine, clock: ShiftedClock, tmp_path: Path
) -> None:
    evaluation = Evaluation(machine, tmp_path, runs=4)
    with evaluation.lane():
        for scenario, shift in (("s1", TWO_HOURS), ("s2", timedelta()), ("s3", -TWO_HOURS)):
            evaluation.wait_until_written(scenario)
            clock.set(shift)
            wait_until_swept(machine)
            seen = len(evaluation.receipts())
            evaluation.open_gate(scenario)
            evaluation.wait_for_segments(seen + 2)
            assert evaluation.attempt_state() == "OPEN"
        evaluation.end()
    evaluation.wait_for_conclusion()
    clock.set(timedelta())

    assert evaluation.said.count("\n") == 2, evaluation.said
    evaluation.assert_nothing_lost_or_doubled()


def test_deadline_that_a_jump_passes_is_no_end_for_a_lane_at_work(
    machine: OneMachine, clock: ShiftedClock, tmp_path: Path
) -> None:
    evaluation = Evaluation(machine, tmp_path, runs=1, deadline_minutes=60)
    with evaluation.lane():
        evaluation.wait_until_written("s1")
        clock.set(TWO_HOURS)
        evaluation.wait_for_conclusion("failure")
        clock.set(timedelta())
        evaluation.end()

    evaluation.wait_for_conclusion()
    assert len(evaluation.check_runs()) == 1
    evaluation.assert_receipts_are_true()


def test_lane_that_begins_under_a_wrong_clock_says_so_and_runs_under_the_right_one(
    machine: OneMachine, clock: ShiftedClock, tmp_path: Path
) -> None:
    clock.set(TWO_HOURS)
    evaluation = Evaluation(machine, tmp_path, runs=1, ahead=TWO_HOURS)
    with evaluation.lane():
        evaluation.end(code=Exit.GUARD_REFUSED)
    assert re.search(r"clock expected within 240 s of the store; saw -7\d{3} s\.", evaluation.said)
    assert "set the wrong one (NTP)" in evaluation.said
    clock.set(timedelta())
    wait_until_swept(machine)

    with evaluation.lane():
        evaluation.end()
    evaluation.wait_for_conclusion()

    evaluation.assert_receipts_are_true()
    (times,) = machine.rows(
        "SELECT registered_at, deadline_at FROM lanes_plans_plan WHERE digest = %s",
        evaluation.digest,
    )
    now = f"{runner_clock.now():%Y-%m-%d %H:%M}"
    registered, deadline = times
    assert registered[:16] <= now < deadline[:16]


def wait_until_swept(machine: OneMachine) -> None:
    """Wait until every sweep was done by the clock as it is now."""
    # Twice: one that ends now may have begun by the clock as it was.
    _wait_for_each_sweep(machine)
    _wait_for_each_sweep(machine)


def _wait_for_each_sweep(machine: OneMachine) -> None:
    before = machine.sweeps()
    assert wait_for(lambda: not before.items() & machine.sweeps().items(), 60)


def test_bucket_that_refuses_the_wrong_clock_is_told_as_such(
    house: ScatteredHouse, clock: ShiftedClock, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane():
        evaluation.wait_until_written("s1")
        evaluation.wait_for_segments(1)
        clock.set(TWO_HOURS)
        evaluation.open_gate()
        evaluation.wait_until_said("or this server's clock is (the store's: ")
        clock.set(timedelta())
        evaluation.end()

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
