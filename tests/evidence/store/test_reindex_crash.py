"""kill -9 in the midst of `reindex`: another one goes on, and the rows are what they were."""

import random
import time
from pathlib import Path

import pytest

from tests.evidence.store.store_program import StoreProgram

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

KILLS = 4


def killed_while_reindexing(reindexing: StoreProgram, chance: random.Random) -> int:
    """Kill a reindexing process some time after its first segments; return how many it told of."""
    with reindexing.start("reindex") as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(2)]
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        told += process.stdout.readlines()
    assert process.returncode == -9
    return len([line for line in told if line.endswith("\n")])


def test_rows_are_what_they_were_after_four_kills(tmp_path: Path) -> None:
    reindexing = StoreProgram("reindexing", tmp_path)
    # The moments differ by machine in any case; the seed only keeps them spread.
    chance = random.Random(7)  # noqa: S311 - chooses moments, no secrets
    (before,) = reindexing.lines("prepare")

    made = sum(killed_while_reindexing(reindexing, chance) for _ in range(KILLS))
    *more, end = reindexing.lines("reindex")

    assert end == {"findings": []}
    assert made >= 2 * KILLS
    assert made + len(more) in range(made, len(before["evidence_store.Segment"]) + 1)
    assert more
    (after,) = reindexing.lines("dump")
    assert {label: sorted(set(before[label]) ^ set(after[label])) for label in before} == {
        label: [] for label in before
    }
    assert {label: len(rows) for label, rows in before.items()} == {
        label: len(rows) for label, rows in after.items()
    }
