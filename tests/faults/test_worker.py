"""The worker is killed in the middle of a task."""

from pathlib import Path

import pytest

from tests.faults.evaluations import Evaluation
from tests.faults.house import PROJECT, ScatteredHouse
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey


def test_worker_that_is_killed_while_it_concludes_concludes_once(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane(), house.locked("gates_decisions_conclusion"):
        evaluation.end()
        assert wait_for(house.is_somebody_waiting, 30)
        house.worker.kill()
    assert evaluation.counts()["conclusions"] == 0
    house.worker.start()

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def test_worker_that_is_killed_after_github_has_made_the_check_makes_no_other(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    house.github.fail(after_commit_timeout=1, hold_seconds=60)
    evaluation = Evaluation(house, tmp_path, runs=1)
    assert wait_for(lambda: is_answer_withheld(house), 30)
    house.worker.kill()
    # Two minutes later, when its claim to send the check is over.
    house.rows(
        "UPDATE gates_checks_check SET claimed_until = claimed_until - interval '2 minutes'"
        " WHERE head_sha = %s RETURNING id",
        evaluation.head_sha,
    )
    house.worker.launch()
    with evaluation.lane():
        evaluation.end()

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def is_answer_withheld(house: ScatteredHouse) -> bool:
    asked = house.github.asked(PROJECT)
    return bool(asked) and (asked[-1].method, asked[-1].status) == ("POST", None)
