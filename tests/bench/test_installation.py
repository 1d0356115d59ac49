"""What the benches and `make crash` do to a real installation: little of it, and counted instead of timed."""

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.bench import crash, crowd, intake, lanes, losses, memory
from tests.bench.bare import BareStore
from tests.bench.installation import Installation
from tests.bench.lanes import Told
from tests.bench.senders import Kept
from tests.lanes.factories import POLICY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("house")
    with Installation(folder, settings=crash.QUICK).standing() as house:
        yield house


@pytest.fixture(scope="module")
def told() -> list[Told]:
    turn = {"role": "user", "kind": "message", "text": "Where is my order?"}
    transcript = "".join(json.dumps({"turn": n, **turn}) + "\n" for n in (1, 2)).encode()
    result = {"outcome": "passed", "scores": {"resolved": 1.0, "turns": 2}, "transcript_parts": 1}
    return [Told(json.dumps(result).encode(), transcript, turns=2)] * 4


def test_intake_and_the_bare_work_store_the_same_runs(
    house: Installation, told: list[Told], tmp_path: Path
) -> None:
    (tmp_path / "bare").mkdir()
    lanes.take_policy(house, lanes.UNJUDGED_POLICY)
    bare = BareStore(tmp_path / "bare", postgres=None)

    timed = intake.compared(house, bare, told, folder=tmp_path, rounds=1)

    bare.close()
    assert {name: len(times.intake) for name, times in timed.items()} == {
        "one segment per class": 1,
        "one per class and two runs": 1,
    }
    with closing(sqlite3.connect(tmp_path / "bare" / "bare.sqlite3")) as database:
        counted = "SELECT count(*), count(DISTINCT segment), sum(lines) FROM item"
        stored = database.execute(counted).fetchone()
    # Each way twice, the first time unmeasured; a run has two items, and its transcript two lines.
    assert stored == (2 * 2 * 8 * 2, 2 * (2 + 8), 2 * 2 * 8 * 2)


def test_a_crowd_sends_each_run_and_reads_pages(
    house: Installation, told: list[Told], tmp_path: Path
) -> None:
    lanes.take_policy(house, lanes.UNJUDGED_POLICY)

    found = crowd.measured(house, told, folder=tmp_path, lane_count=2, runs=20)

    assert (found["runs"], found["errors"]) == (20, 0), found["what_failed"]
    counts = {kind: row["count"] for kind, row in found["milliseconds"].items()}
    # The first run is there before anybody reads.
    assert counts["receipt"] == 2 * 20 - 2
    assert {"plan page", "run list", "transcript"} < counts.keys()


def test_memory_is_that_of_the_web_server_while_a_lane_sends(
    house: Installation, tmp_path: Path
) -> None:
    lanes.take_policy(house, lanes.UNJUDGED_POLICY)

    found = memory.measured(house, folder=tmp_path, gigabytes=0.04)

    assert found["segments"] == 3
    assert 0.035e9 < found["sent_bytes"] < 0.05e9
    assert 20e6 < found["at_rest_bytes"] < found["peak_bytes"]
    assert memory.is_kept(found), found


def test_nothing_with_a_receipt_is_lost_to_a_kill_and_a_loss_is_seen(
    house: Installation, tmp_path: Path
) -> None:
    lanes.take_policy(house, POLICY)

    outcome = crash.crashed(house, kills=3, seed=7, folder=tmp_path)

    assert sum(outcome.killed.values()) == 3
    assert outcome.checked.receipts == len(outcome.kept) > 3 * crash.LANES
    assert outcome.checked.losses == []

    gone, changed, forgotten = [one for one in outcome.kept if one.text is not None][:3]
    house.objects.delete(object_key(house, gone))
    house.objects.put(object_key(house, changed), io.BytesIO(b"other bytes"))
    forget_items(house, forgotten)

    assert [loss.partition(": ")[2] for loss in losses.check(house, outcome.kept).losses] == [
        "its object is gone",
        "its object has other bytes",
        "0 items have rows, 1 were accepted",
    ]


def object_key(house: Installation, kept: Kept) -> str:
    statement = "SELECT object_key FROM evidence_store_segment WHERE sha256 = %s"
    ((key,),) = house.rows(statement, kept.sha256)
    return str(key)


def forget_items(house: Installation, kept: Kept) -> None:
    """Take the rows of a segment's items away, which no release does."""
    statement = (
        "DELETE FROM evidence_store_item WHERE segment_id ="
        " (SELECT id FROM evidence_store_segment WHERE sha256 = ?)"
    )
    with closing(sqlite3.connect(house.data / "evalhub.sqlite3", timeout=20)) as database:
        database.execute(statement, [kept.sha256])
        database.commit()
