"""kill -9 while bytes are removed, and two sweeps at once: after each, rows and objects say the truth."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
KILLS = 4


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "EVALHUB_TEST_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}


def start(environment: dict[str, str], command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.evidence.store.removing", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(environment: dict[str, str], command: str) -> list[Any]:
    with start(environment, command) as process:
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


def killed_while_removing(environment: dict[str, str], chance: random.Random) -> None:
    with start(environment, "remove") as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.stdout.read()


def test_rows_and_objects_are_true_after_each_kill(environment: dict[str, str]) -> None:
    # The moments differ by machine in any case; the seed only keeps them spread.
    chance = random.Random(7)  # noqa: S311 - chooses moments, no secrets
    (ordered,) = lines(environment, "prepare")

    gone = 0
    for _ in range(KILLS):
        killed_while_removing(environment, chance)
        (found,) = lines(environment, "verify")
        assert found["wrong"] == []
        assert found["gone"] == found["counted"]
        assert gone < found["gone"] < ordered["ordered"]
        gone = found["gone"]

    # Two at once carry the rest out: neither hinders the other, and nothing is counted twice.
    with start(environment, "remove") as first, start(environment, "remove") as second:
        for process in (first, second):
            process.communicate(timeout=300)
            assert process.returncode == 0
    (found,) = lines(environment, "verify")
    assert found == {
        "wrong": [],
        "gone": ordered["ordered"],
        "counted": ordered["ordered"],
        "finished": True,
    }
