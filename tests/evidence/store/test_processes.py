"""Intake in real processes: killed between any two steps, and the same segment from several at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.programs.postgres import PostgresServer
from tests.programs.s3 import S3Server
from tests.programs.server import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOTHING = {"receipts": [], "items": 0, "runs": 0, "calls": 0, "receipt objects": 0}
# What intake does after its transaction: a kill there leaves a receipt.
AFTER = ["call store_receipt", "return store_receipt", "return receive_segment"]
DURABLE = [
    "call _sync_folder",
    "return _stored_object",
    "return open_archive",
    "return sorted_segment",
]
IN_TRANSACTION = ["return _settle", "return _lock", "return store_items", "return _tell_plan"]


@pytest.fixture(params=["SQLite and a directory", "PostgreSQL and S3"])
def surroundings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Return the environment of processes on each database and object store."""
    plain = {**os.environ, "EVALHUB_TEST_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    plain.pop("EVALHUB_TEST_DATABASE", None)
    plain.pop("EVALHUB_TEST_POSTGRES", None)
    with ExitStack() as stack:
        if request.param == "PostgreSQL and S3":
            postgres = stack.enter_context(PostgresServer(tmp_path / "postgres"))
            s3 = stack.enter_context(S3Server(tmp_path / "s3"))
            plain |= s3.environment
            plain |= {"EVALHUB_TEST_DATABASE": "postgres", "EVALHUB_TEST_POSTGRES": postgres.host}
        yield plain


def outcome(environment: Mapping[str, str], *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.store.dying", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kill_between_any_two_steps_leaves_a_true_receipt_or_nothing(
    surroundings: Mapping[str, str],
) -> None:
    told = outcome(surroundings, "die")

    steps = {step["step"]: step for step in told["steps"]}
    # Each step was reached, and ended the process there.
    assert [name for name, step in steps.items() if step["signal"] != signal.SIGKILL] == []
    for name, step in steps.items():
        if name in AFTER:
            assert len(step["killed"]["receipts"]) == 1, name
        else:
            assert step["killed"] == NOTHING, name
        # What was durable is adopted; before that there was nothing to adopt.
        assert step["taken"] == (name in DURABLE + IN_TRANSACTION), name
        assert step["unfinished"] == (name == "c_call fsync"), name
        again, end = step["sent again"], step["in the end"]
        assert again["is_new"] == (step["swept"]["receipts"] == []), name
        assert end["receipts"] == [again["receipt"]], name
        assert step["swept"]["receipts"] in ([], end["receipts"]), name
        assert end | {"receipts": []} == {
            **NOTHING,
            "items": 2,
            "runs": 1,
            "calls": 1,
            "receipt objects": 1,
        }
    assert "EVALHUB_S3_BUCKET" in surroundings or {*AFTER, *DURABLE, *IN_TRANSACTION} < set(steps)
    assert told["counted"] == counts(len(steps))


def test_same_segment_from_several_processes_at_once_is_one(
    surroundings: Mapping[str, str],
) -> None:
    told = outcome(surroundings, "race", "6")

    heard = told["heard"]
    assert sum(one["is_new"] for one in heard) == 1
    assert all(one["receipt"] == heard[0]["receipt"] for one in heard)
    assert told["state"]["receipts"] == [heard[0]["receipt"]]
    assert told["counted"] == counts(1)


def counts(segments: int) -> dict[str, int]:
    """Return what there is of so many segments and nothing else."""
    each = {"Segment": 1, "Item": 2, "Run": 1, "JudgeCall": 1, "Score": 2, "LedgerEntry": 1}
    none = {"Refusal": 0, "unfinished": 0}
    return {name: number * segments for name, number in each.items()} | none
