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
