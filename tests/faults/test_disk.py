"""A disk is really full: the lane's own, the one of a whole installation, the database's."""

from pathlib import Path

import pytest

from tests.faults.evaluations import Evaluation, register_large_plans
from tests.faults.house import OneMachine, ScatteredHouse
from tests.faults.small_disk import small_disk
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey


def test_lane_whose_disk_is_full_waits_and_says_so(house: ScatteredHouse, tmp_path: Path) -> None:
    evaluation = Evaluation(house, tmp_path)
    with small_disk(tmp_path / "lane", mebibytes=16) as disk:
        if disk is None:
            pytest.skip("This machine lets nobody mount a file system, so no disk can be full.")
        evaluation.spool = disk.path / "spool"
        with evaluation.lane():
            evaluation.open_gate("s1")
            evaluation.wait_until_written("s2")
            disk.fill()
            evaluation.open_gate("s2")
            evaluation.wait_until_said("No space left on device")
            evaluation.wait_until_said("The lane waits for room: no further run is started")
            assert evaluation.process.poll() is None
            disk.clear()
            evaluation.end()
        assert "There is room in" in evaluation.said
        evaluation.wait_for_conclusion()
        evaluation.assert_nothing_lost_or_doubled()


def test_installation_whose_disk_is_full_says_so_and_goes_on_with_room(
    machine: OneMachine, tmp_path: Path
) -> None:
    evaluation = Evaluation(machine, tmp_path)
    assert machine.signed_in
    with evaluation.lane():
        evaluation.open_gate("s1")
        evaluation.wait_until_written("s2")
        machine.disk.fill()
        evaluation.open_gate("s2")
        evaluation.wait_until_said("cannot work now (507)")
        refused = register_large_plans(machine)
        page = machine.page(f"/plans/{evaluation.digest}/")
        machine.disk.clear()
        evaluation.end()

    assert "No space left on device" in evaluation.said or "is full" in evaluation.said
    assert "Whoever runs the server must make room" in evaluation.said
    assert (refused.status_code, refused.headers["Retry-After"]) == (507, "10")
    assert refused.json()["detail"].startswith("The disk of the database is full")
    # What was stored before can be read all the same.
    assert page.status_code == 200
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def test_database_whose_disk_is_full_takes_all_once_there_is_room(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    if house.disk is None:
        pytest.skip("This machine lets nobody mount a file system, so no disk can be full.")
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane():
        evaluation.wait_for_segments(1)
        house.disk.fill()
        refused = register_large_plans(house)
        house.disk.clear()
        if not wait_for(house.postgres.is_ready, 10):
            # It ends when it cannot even write down that it has no room.
            house.postgres.restart()
        evaluation.end()

    assert refused.status_code in {503, 507}
    assert refused.json()["code"] in {"database-full", "database-unavailable"}
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
    assert register_large_plans(house, most=1).status_code == 201
