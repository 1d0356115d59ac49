"""What was removed on purpose stays removed, whatever happens to the rows and to copies of the objects."""

import io

import pytest
from django.db import transaction

from evidence.store import queries
from evidence.store.models import Item, Removal, Score, Segment
from evidence.store.operations import (
    counting,
    documents,
    objects,
    purging,
    receipts,
    removals,
    tombstones,
)
from evidence.store.operations.check_store import Looked, store_findings
from evidence.store.operations.findings import Scope
from evidence.store.operations.plan_rows import Tally
from evidence.store.operations.reindex import reindex
from evidence.store.queries import EvidenceRemovedError
from evidence.store.storage import object_store
from lanes.plans.models import Attempt
from tests.evidence.factories import make_run, seal_attempt
from tests.evidence.store.dumps import drop_rows
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project

pytestmark = pytest.mark.django_db


def make_small_store() -> Attempt:
    attempt = make_attempt(make_plan(make_project("acme/small")))
    make_run(attempt)
    seal_attempt(attempt)
    sweep()
    return attempt


def sweep() -> None:
    receipts.sweep_receipts(at=NOW)
    counting.count_stored()
    removals.sweep_removals(at=NOW)
    documents.sweep_documents(at=NOW)


def purge(attempt: Attempt) -> Removal:
    target = purging.whole_plan(attempt.lane.plan)
    return purging.purge(target, reason="A name.", actor="user:maintainer", at=NOW)


def again() -> Tally:
    tally = Tally()
    assert list(reindex(Scope(), tally, at=NOW)) == []
    sweep()
    return tally


def faults() -> list[tuple[str, str]]:
    return [(str(f.grade), f.key) for f in store_findings(Scope(), looked=Looked())]


def expect_removed() -> None:
    assert [key for key in object_store().keys("") if key.endswith(".zip")] == []
    assert faults() == []
    for item in Item.objects.all():
        with pytest.raises(EvidenceRemovedError, match="Purged by user:maintainer"):
            queries.item_bytes(item)


def test_scores_of_purged_records_come_back_without_their_bytes() -> None:
    attempt = make_small_store()
    before = sorted(Score.objects.values_list("rubric", "stage", "value", "repeats"))
    purge(attempt)
    sweep()
    drop_rows()

    again()

    assert sorted(Score.objects.values_list("rubric", "stage", "value", "repeats")) == before
    assert len(before) == 2
    expect_removed()


def test_order_whose_rows_were_lost_halfway_is_carried_out_all_the_same() -> None:
    attempt = make_small_store()
    removal = purge(attempt)
    removals.carry_out(removal, most=1, at=NOW)
    for segment in Segment.objects.filter(gone_at__isnull=True):
        # Its tombstone is there, and its bytes are too.
        removals.write_tombstone(segment, tombstones.order_of(removal))
    documents.sweep_documents(at=NOW)
    drop_rows()

    again()

    assert Removal.objects.get().finished_at == NOW
    expect_removed()


def test_rows_of_a_backup_hear_of_a_purge_that_came_after_it() -> None:
    attempt = make_small_store()
    backup = transaction.savepoint()
    purge(attempt)
    sweep()
    transaction.savepoint_rollback(backup)
    lying_there = {objects.tombstone_key(row.object_key) for row in Segment.objects.all()}
    assert set(faults()) == {("unindexed", key) for key in lying_there}

    assert again().removed_segments == 2

    expect_removed()
    assert {use.removed_segments for use in queries.storage_of_plan(attempt.lane.plan)} == {0, 1}


def test_bytes_that_were_put_back_go_again() -> None:
    attempt = make_small_store()
    kept: dict[str, bytes] = {}
    for row in Segment.objects.all():
        with object_store().open(row.object_key) as file:
            kept[row.object_key] = file.read()
    purge(attempt)
    sweep()
    for key, data in kept.items():
        object_store().put(key, io.BytesIO(data))
    drop_rows()

    again()

    expect_removed()


def test_damaged_tombstone_is_told_and_its_segment_left_out() -> None:
    attempt = make_small_store()
    purge(attempt)
    sweep()
    key = objects.tombstone_key(Segment.objects.get(seq=1).object_key)
    object_store().put(key, io.BytesIO(b'{"seq": 1}'))
    assert faults() == [("damaged", key)]
    drop_rows()

    findings = list(reindex(Scope(), Tally(), at=NOW))

    assert [(str(f.grade), f.key) for f in findings] == [("damaged", key)]
    assert list(Segment.objects.values_list("seq", flat=True)) == [2]


def test_upload_that_came_to_nothing_is_not_taken_into_a_purged_plan() -> None:
    attempt = make_attempt(make_plan(make_project("acme/small")))
    make_run(attempt)
    purge(attempt)
    sweep()
    stray = objects.segment_key(attempt, seq=9, sha256="sha256:" + "a" * 64)
    object_store().put(stray, io.BytesIO(b"bytes"))

    assert list(reindex(Scope(), Tally(), at=NOW)) == []

    assert not Segment.objects.filter(seq=9).exists()
