"""The database is restarted or killed in the middle of uploads, of pages, and of concluding."""

from pathlib import Path

import pytest

from tests.faults.evaluations import Evaluation
from tests.faults.house import ScatteredHouse
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey


def test_database_that_is_killed_in_an_upload_has_it_or_gets_it_again(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path)
    assert house.signed_in
    with evaluation.lane():
        evaluation.wait_for_segments(1)
        with house.locked("evidence_store_segment"):
            evaluation.open_gate("s1")
            assert wait_for(house.is_somebody_waiting, 30)
            house.postgres.kill()
        evaluation.wait_until_said("cannot work now (503): The database")
        page = house.page("/plans/")
        sign_in = house.page("/sign-in/")
        api = house.request("GET", "plans")
        house.postgres.start()
        evaluation.end()
        # Whoever held a broken connection has another.
        pages = [house.page("/plans/").status_code for _ in range(8)]

    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert "The database did not take the request in time" in page.text
    assert sign_in.status_code in {200, 503}
    assert (api.status_code, api.json()["code"]) == (503, "database-unavailable")
    assert pages == [200] * 8
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
    assert "Internal Server Error" not in house.web.said


def test_database_that_is_restarted_while_a_plan_is_concluded_concludes_it_once(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane(), house.locked("gates_decisions_conclusion"):
        evaluation.end()
        assert wait_for(house.is_somebody_waiting, 30)
        house.postgres.restart()

    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
    assert house.worker.is_running
