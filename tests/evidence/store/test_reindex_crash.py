"""kill -9 in the midst of `reindex`: another one goes on, and the rows are what they were."""

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


def start(environment: dict[str, str], command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.evidence.store.reindexing", command],
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


def killed_while_reindexing(environment: dict[str, str], chance: random.Random) -> int:
    """Kill a reindexing process some time after its first segments; return how many it told of."""
    with start(environment, "reindex") as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(2)]
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        told += process.stdout.readlines()
    assert process.returncode == -9
    return len([line for line in told if line.endswith("\n")])


def test_rows_are_what_they_were_after_four_kills(tmp_path: Path) -> None:
    environment = {**os.environ, "EVALHUB_TEST_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    # The moments differ by machine in any case; the seed only keeps them spread.
    chance = random.Random(7)  # noqa: S311 - chooses moments, no secrets
    (before,) = lines(environment, "prepare")

    made = sum(killed_while_reindexing(environment, chance) for _ in range(KILLS))
    *more, end = lines(environment, "reindex")

    assert end == {"findings": []}
    assert made >= 2 * KILLS
    assert made + len(more) in range(made, len(before["evidence_store.Segment"]) + 1)
    assert more
    (after,) = lines(environment, "dump")
    assert {label: sorted(set(before[label]) ^ set(after[label])) for label in before} == {
        label: [] for label in before
    }
    assert {label: len(rows) for label, rows in before.items()} == {
        label: len(rows) for label, rows in after.items()
    }
