"""kill -9 at any moment: every receipt that was given is true afterwards, and nothing is half there."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.store.store_program import StoreProgram

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]

KILLS = 5


@pytest.fixture
def receiving(tmp_path: Path) -> StoreProgram:
    return StoreProgram("receiving", tmp_path)


def killed_while_receiving(
    receiving: StoreProgram, attempt: str, first_seq: int, chance: random.Random
) -> list[Any]:
    """Kill a receiving process some time after its first receipt; return the receipts that it gave."""
    with receiving.start("receive", attempt, str(first_seq)) as process:
        assert process.stdout is not None
        given = [process.stdout.readline()]
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        given += process.stdout.readlines()
    # The kill may have cut the last line: a receipt that did not arrive whole was not given.
    return [json.loads(line) for line in given if line.endswith("\n")]


def test_every_receipt_is_true_after_five_kills(receiving: StoreProgram) -> None:
    # The moments differ by machine in any case; the seed only keeps them spread.
    chance = random.Random(7)  # noqa: S311 - chooses moments, no secrets
    (prepared,) = receiving.lines("prepare")
    attempt = prepared["attempt"]

    given: list[Any] = []
    for _ in range(KILLS):
        first_seq = len({receipt["seq"] for receipt in given}) + 1
        given += killed_while_receiving(receiving, attempt, first_seq, chance)

    (found,) = receiving.lines("verify", attempt)
    stored = {receipt["seq"]: receipt for receipt in found["segments"]}
    assert len(given) >= KILLS
    for receipt in given:
        assert stored[receipt["seq"]] == receipt
    # A receipt that was committed and not yet given counts too; nothing else does.
    assert len(stored) - len({receipt["seq"] for receipt in given}) in {0, 1}
    rows = len(stored)
    assert found["counts"] == {"runs": rows, "calls": rows, "scores": 2 * rows, "ledger": rows}
