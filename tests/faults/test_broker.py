"""The broker forgets everything, goes away, or freezes: a message is a hint, the row is the fact."""

from pathlib import Path
from time import monotonic

import pytest
from redis import Redis

from tests.faults.evaluations import Evaluation
from tests.faults.house import ScatteredHouse, freeze, thaw
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey


def test_broker_that_is_emptied_loses_no_conclusion(house: ScatteredHouse, tmp_path: Path) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    freeze(house.worker)
    with evaluation.lane():
        evaluation.end()
    with Redis(port=house.redis.port) as client:
        assert client.llen("evalhub")
        client.flushall()
    thaw(house.worker)

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def test_broker_that_goes_away_in_a_task_ends_neither_worker_nor_lane(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    with house.locked("gates_checks_check"):
        # A task that is under way then has a message to give back, which nobody takes.
        evaluation = Evaluation(house, tmp_path, runs=1)
        assert wait_for(house.is_somebody_waiting, 30)
        house.redis.kill()
        assert wait_for(lambda: "Connection to broker lost" in house.worker.said, 30)
    with evaluation.lane():
        evaluation.end()
    assert "cannot work" not in evaluation.said
    house.redis.start()

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
    assert house.worker.is_running
    assert house.beat.is_running


def test_broker_that_is_frozen_holds_no_request_for_long(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    freeze(house.redis)
    begun = monotonic()
    with evaluation.lane():
        evaluation.end()
    seconds = monotonic() - begun
    thaw(house.redis)

    assert seconds < 45
    assert "task not queued, left to its sweep" in house.web.said
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def test_lane_that_died_while_the_broker_was_away_is_found_and_its_plan_decided(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=2)
    with evaluation.lane():
        evaluation.open_gate("s1")
        evaluation.wait_for_segments(1)
        evaluation.wait_until_written("s2")
        house.redis.kill()
    # Hours go by, in which nobody asked for a sweep: heartbeats and the deadline were missed.
    house.rows(
        "UPDATE lanes_plans_attempt a SET opened_at = a.opened_at - interval '5 hours',"
        " last_heard_at = a.last_heard_at - interval '5 hours' FROM lanes_plans_lane l,"
        " lanes_plans_plan p WHERE l.id = a.lane_id AND p.id = l.plan_id AND p.digest = %s"
        " RETURNING a.id",
        evaluation.digest,
    )
    house.rows(
        "UPDATE lanes_plans_plan SET registered_at = registered_at - interval '5 hours',"
        " deadline_at = deadline_at - interval '5 hours' WHERE digest = %s RETURNING id",
        evaluation.digest,
    )
    assert evaluation.attempt_state() == "OPEN"
    house.redis.start()

    evaluation.wait_for_conclusion("failure")
    assert wait_for(lambda: evaluation.attempt_state() == "SILENT", 30)
    evaluation.push()

    # What it had left in its spool still counts, and has the plan decided anew.
    assert wait_for(lambda: evaluation.attempt_state() == "SEALED", 30)
    assert wait_for(lambda: is_at_rest(house, evaluation.digest), 60)
    evaluation.assert_receipts_are_true()


def is_at_rest(house: ScatteredHouse, digest: str) -> bool:
    """Say whether the newest conclusion has seen all that arrived."""
    ((state, behind),) = house.rows(
        "SELECT state, inputs_version - concluded_version FROM lanes_plans_plan WHERE digest = %s",
        digest,
    )
    return (state, behind) == ("CONCLUDED", 0)
