"""Segments that were stored and never answered: taken in once nobody else does, or removed."""

import os
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import run_folder
from evidence.store import queries
from evidence.store.models import Item, OrphanRound, Refusal, Segment
from evidence.store.operations import objects
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.operations.orphans import QUIET, UNFINISHED, Bounds, sweep_orphans
from evidence.store.storage import (
    DirectoryStore,
    ObjectStore,
    StorageUnavailableError,
    object_store,
)
from evidence.store.tasks import sweep_orphans as task
from lanes.budget import queries as budget_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts as attempts_operations
from tests.evidence.factories import (
    first_run_key,
    judge_line,
    make_segment,
    ndjson,
    result_bytes,
    seal_attempt,
    send_segment,
)
from tests.lanes.factories import NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db

LATER = NOW + QUIET
SOON = timedelta(seconds=1)


def judged(attempt: Attempt, *, seq: int = 1, outcome: str = "passed") -> bytes:
    folder = run_folder(first_run_key(attempt))
    line = judge_line(call_id=f"00000000-0000-4000-8000-{seq:012}", cost_microusd=300)
    members = {
        f"{folder}/result.json": result_bytes(outcome),
        f"{folder}/judge.{seq}.ndjson": ndjson(line),
    }
    return make_segment(attempt, members, seq=seq)


def left_behind(attempt: Attempt, data: bytes, *, seq: int = 1) -> str:
    """Store a segment as an upload does that dies before its transaction; return its key."""
    objects.put_attempt_documents(attempt)
    key = objects.segment_key(attempt, seq=seq, sha256=bytes_digest(data))
    object_store().put(key, BytesIO(data))
    return key


def spent(attempt: Attempt) -> int:
    return budget_queries.spend_of_plan(attempt.lane.plan.digest).spent_microusd


def test_what_was_stored_is_taken_in_as_if_sent_now(either_store: ObjectStore) -> None:
    attempt = make_attempt()
    data = judged(attempt)
    key = left_behind(attempt, data)

    assert sweep_orphans(at=LATER) == 1

    segment = Segment.objects.get()
    assert (segment.object_key, segment.received_at) == (key, LATER)
    assert Item.objects.count() == 2
    assert spent(attempt) == 300
    attempt.refresh_from_db()
    assert attempt.last_heard_at == NOW
    assert either_store.exists(objects.receipt_key(key))
    # The lane comes back after all.
    again = send_segment(attempt, data, at=LATER)
    assert not again.is_new
    assert again.receipt.model_dump(mode="json") == segment.receipt
    assert sweep_orphans(at=LATER + SOON) == 0


def test_lane_that_may_still_be_sending_is_left_alone() -> None:
    attempt = make_attempt()
    left_behind(attempt, judged(attempt))

    assert sweep_orphans(at=LATER - SOON) == 0
    assert not Segment.objects.exists()
    assert sweep_orphans(at=LATER) == 1


def test_what_is_taken_in_after_the_seal_is_late() -> None:
    attempt = make_attempt()
    seal_attempt(attempt)
    left_behind(attempt, judged(attempt))

    assert sweep_orphans(at=LATER) == 1

    assert not Item.objects.exists()
    assert {refusal.code for refusal in Refusal.objects.all()} == {"attempt_sealed"}
    assert spent(attempt) == 300


def test_unfit_segment_goes_to_quarantine_with_its_bytes() -> None:
    attempt = make_attempt()
    data = judged(attempt) + b"\0"
    left_behind(attempt, data)

    assert sweep_orphans(at=LATER) == 1

    refusal = Refusal.objects.get()
    assert (refusal.path, refusal.code) == ("", "no_end_record")
    assert queries.refusal_bytes(refusal) == data
    assert sweep_orphans(at=LATER + SOON) == 0


def test_segment_whose_seq_has_other_bytes_is_removed(either_store: ObjectStore) -> None:
    attempt = make_attempt()
    send_segment(attempt, judged(attempt))
    key = left_behind(attempt, judged(attempt, outcome="failed"))

    assert sweep_orphans(at=LATER) == 1

    assert not either_store.exists(key)
    assert either_store.exists(Segment.objects.get().object_key)
    assert not Refusal.objects.exists()


def test_acknowledged_and_refused_segments_are_nobodys_orphans(either_store: ObjectStore) -> None:
    attempt = make_attempt()
    send_segment(attempt, judged(attempt))
    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, b"no archive", seq=2)
    before = list(either_store.keys())
    # Also while nothing lies beside them.
    for key in before:
        if key.endswith((".receipt.json", ".refusal.json")):
            either_store.delete(key)

    assert sweep_orphans(at=LATER) == 0

    assert set(either_store.keys("")) >= {key for key in before if key.endswith(".zip")}


@pytest.mark.parametrize("beside", ["receipt.json", "refusal.json"])
def test_segment_whose_rows_were_lost_is_for_reindex(beside: str) -> None:
    attempt = make_attempt()
    key = left_behind(attempt, judged(attempt))
    object_store().put(f"{key.removesuffix('.zip')}.{beside}", BytesIO(b"{}"))

    assert sweep_orphans(at=LATER) == 0
    assert not Segment.objects.exists()


def test_object_with_other_bytes_than_its_name_says_is_left_as_it_lies() -> None:
    attempt = make_attempt()
    key = left_behind(attempt, judged(attempt))
    object_store().put(key, BytesIO(b"other"))

    assert sweep_orphans(at=LATER) == 0

    assert object_store().exists(key)
    assert not Refusal.objects.exists()


def test_imported_plan_is_left_alone() -> None:
    attempt = make_attempt()
    left_behind(attempt, judged(attempt))
    Plan.objects.update(is_foreign=True)

    assert sweep_orphans(at=LATER) == 0


def test_folder_is_listed_again_only_if_its_lane_was_heard(objects_dir: Path) -> None:
    attempt = make_attempt()
    sweep_orphans(at=LATER)
    left_behind(attempt, judged(attempt))

    assert sweep_orphans(at=LATER + SOON) == 0
    attempts_operations.touch_attempt(attempt, at=LATER + 2 * SOON)
    assert sweep_orphans(at=LATER + 2 * SOON + QUIET) == 1


def test_lane_that_was_quiet_is_noted_as_heard_before_anything_is_stored(
    objects_dir: Path,
) -> None:
    attempt = make_attempt()
    objects_dir.write_text("in the way")

    with pytest.raises(StorageUnavailableError):
        send_segment(attempt, judged(attempt), at=NOW + timedelta(days=1))

    attempt.refresh_from_db()
    assert attempt.last_heard_at == NOW + timedelta(days=1)


def test_many_are_taken_in_some_at_a_time() -> None:
    plan = make_plan()
    lanes = [make_attempt(plan), make_attempt(plan, "ordinary-2")]
    for attempt in lanes:
        for seq in (1, 2, 3):
            left_behind(attempt, judged(attempt, seq=seq), seq=seq)

    few = Bounds(rows=2, listed=1, taken=2)
    taken = [sweep_orphans(at=LATER + number * SOON, most=few) for number in range(7)]

    assert taken == [2, 1, 2, 1, 0, 0, 0]
    assert Segment.objects.count() == 6
    assert OrphanRound.objects.get().position == 0


def test_sweep_waits_while_the_store_is_away(objects_dir: Path) -> None:
    attempt = make_attempt()
    left_behind(attempt, judged(attempt))
    away = objects_dir.rename(objects_dir.with_name("away"))
    objects_dir.write_text("in the way")
    assert sweep_orphans(at=LATER) == 0
    objects_dir.unlink()
    away.rename(objects_dir)

    assert sweep_orphans(at=LATER + SOON) == 1


def test_file_that_was_never_given_its_name_goes_after_an_hour(objects_dir: Path) -> None:
    store = DirectoryStore(objects_dir)
    store.put("a/b", BytesIO(b"x"))
    old, young = (objects_dir / ".incoming" / name for name in ("old", "young"))
    for path, age in ((old, UNFINISHED + SOON), (young, UNFINISHED - SOON)):
        path.write_bytes(b"half")
        os.utime(path, ((NOW - age).timestamp(),) * 2)

    sweep_orphans(at=NOW)

    assert [path.name for path in (objects_dir / ".incoming").iterdir()] == ["young"]
    assert list(store.keys()) == ["a/b"]


def test_task_sweeps() -> None:
    attempt = make_attempt()
    left_behind(attempt, judged(attempt))

    task.delay()

    # Attempts of the tests were opened long before the clock that the task reads.
    assert Segment.objects.count() == 1
