"""kill -9 while bytes are removed, and two sweeps at once: after each, rows and objects say the truth."""

import random
import time
from pathlib import Path

import pytest

from tests.evidence.store.store_program import StoreProgram

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

KILLS = 4


@pytest.fixture
def removing(tmp_path: Path) -> StoreProgram:
    return StoreProgram("removing", tmp_path)


def killed_while_removing(removing: StoreProgram, chance: random.Random) -> None:
    with removing.start("remove") as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.stdout.read()


def test_rows_and_objects_are_true_after_each_kill(removing: StoreProgram) -> None:
    # The moments differ by machine in any case; the seed only keeps them spread.
    chance = random.Random(7)  # noqa: S311 - chooses moments, no secrets
    (ordered,) = removing.lines("prepare")

    gone = 0
    for _ in range(KILLS):
        killed_while_removing(removing, chance)
        (found,) = removing.lines("verify")
        assert found["wrong"] == []
        assert found["gone"] == found["counted"]
        assert gone < found["gone"] < ordered["ordered"]
        gone = found["gone"]

    # Two at once carry the rest out: neither hinders the other, and nothing is counted twice.
    with removing.start("remove") as first, removing.start("remove") as second:
        for process in (first, second):
            process.communicate(timeout=300)
            assert process.returncode == 0
    (found,) = removing.lines("verify")
    assert found == {
        "wrong": [],
        "gone": ordered["ordered"],
        "counted": ordered["ordered"],
        "finished": True,
    }
