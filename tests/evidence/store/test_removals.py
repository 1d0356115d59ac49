"""Removing bytes: what is left of them, after every step, and for whom."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoAssertNumQueries, Settings

from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import run_folder
from evalhub.protocol.tombstones import Cause, RemovalScope, Tombstone
from evidence.store import queries
from evidence.store.models import Item, PlanStorage, Refusal, Removal, Run, Score, Segment
from evidence.store.operations import (
    check_store,
    counting,
    exporting,
    intake,
    objects,
    pins,
    purging,
    removals,
    tombstones,
)
from evidence.store.operations.findings import Finding, Scope
from evidence.store.operations.purging import Target
from evidence.store.operations.recording import PlanPurgedError
from evidence.store.queries import EvidenceRemovedError
from evidence.store.storage import object_store
from lanes.plans.models import Attempt, AttemptState, Plan
from lanes.plans.operations import attempts
from lanes.projects.models import AuditEntry
from tests.evidence.factories import (
    content_digest,
    make_file,
    make_refusal,
    make_run,
    make_segment,
    run_keys,
    seal_attempt,
    send_members,
    send_segment,
)
from tests.lanes.factories import NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db

WHO: dict[str, Any] = {"actor": "user:maintainer", "at": NOW, "reason": "A name was in it."}


def keys(kind: str) -> list[str]:
    return [key for key in object_store().keys("") if key.endswith(f".{kind}")]


def swept() -> int:
    counting.count_stored()
    return removals.sweep_removals(at=NOW)


def findings() -> list[Finding]:
    return list(check_store.store_findings(Scope(), looked=check_store.Looked()))


def tombstone_of(segment: Segment) -> Tombstone:
    with object_store().open(objects.tombstone_key(segment.object_key)) as file:
        return parse_document(Tombstone, file.read())


def broken_segment(attempt: Attempt, seq: int = 90) -> bytes:
    data = make_segment(attempt, {"lane/preflight.json": b"{}"}, seq=seq)[:-30]
    with pytest.raises(intake.SegmentRefusedError):
        send_segment(attempt, data, seq=seq)
    return data


@pytest.mark.usefixtures("either_store")
def test_purged_plan_has_tombstones_for_bytes_and_keeps_its_scores() -> None:
    attempt = make_attempt(make_plan())
    run = make_run(attempt)
    make_refusal(attempt)
    broken_segment(attempt)
    plan, before = attempt.lane.plan, list(Score.objects.values_list("rubric", "value"))

    removal = purging.purge(purging.whole_plan(plan), **WHO)
    counted = swept()

    assert (removal.segments, counted, keys("zip")) == (4, 4, [])
    assert len(keys("purged.json")) == 4
    assert list(Score.objects.values_list("rubric", "value")) == before
    assert Removal.objects.get().finished_at == NOW
    assert not Segment.objects.filter(gone_at__isnull=True).exists()
    for item in Item.objects.filter(run=run):
        with pytest.raises(
            EvidenceRemovedError, match="Purged by user:maintainer on 2026-11-29: A"
        ):
            queries.item_bytes(item)
    for refusal in Refusal.objects.all():
        with pytest.raises(EvidenceRemovedError):
            queries.refusal_bytes(refusal)
    assert findings() == []
    (entry,) = AuditEntry.objects.filter(action="evidence.purge")
    assert entry.actor == "user:maintainer"
    assert (entry.before or {})["segments"] == 4
    assert (entry.after or {})["reason"] == "A name was in it."


def test_bytes_are_given_to_nobody_from_the_order_on() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    plan = attempt.lane.plan

    purging.purge(purging.whole_plan(plan), **WHO)

    assert len(keys("zip")) == 2
    with pytest.raises(EvidenceRemovedError):
        queries.item_bytes(Item.objects.first())  # type: ignore[arg-type]
    assert [f.name for f in exporting.evidence_files(plan) if f.name.endswith(".zip")] == []
    assert list(exporting.lost_files(plan, there=set())) == []
    assert findings() == []


def test_tombstone_tells_what_rows_need_and_nothing_that_an_agent_said() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt, value=0.0, outcome="failed")
    make_file(attempt, "notes.txt", b"the word is swordfish")
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    swept()

    record = tombstone_of(Segment.objects.get(seq=1))
    result = next(item for item in record.items if item.result is not None)
    assert result.result is not None
    assert (result.result.outcome, result.result.scores) == ("failed", {"latency_s": 12.4})
    assert [call.value for item in record.items for call in item.judge] == [0.0]
    assert (record.is_whole, record.removal.cause) == (True, Cause.PURGE)
    for key in keys("purged.json"):
        with object_store().open(key) as file:
            text = file.read()
        assert b"Hello" not in text
        assert b"swordfish" not in text
        assert b"The refund exists once" not in text


def test_purged_plan_takes_no_evidence_any_more() -> None:
    attempt = make_attempt(make_plan())
    data = make_segment(attempt, {"lane/preflight.json": b'{"guards": []}'})
    send_segment(attempt, data)
    plan = attempt.lane.plan
    purging.purge(purging.whole_plan(plan), **WHO)
    swept()

    for seq in (1, 2):
        with pytest.raises(PlanPurgedError) as refused:
            send_segment(attempt, data, seq=seq)
        assert refused.value.status == 410
    later = attempts.open_attempt(plan, attempt.lane.name, at=NOW)
    with pytest.raises(PlanPurgedError):
        send_segment(later, make_segment(later, {"lane/preflight.json": b'{"guards": []}'}))

    assert keys("zip") == []
    attempt.refresh_from_db()
    assert attempt.state in {AttemptState.CANCELLED, AttemptState.SUPERSEDED}


def test_upload_that_was_under_way_when_its_plan_was_purged_leaves_nothing() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    data = make_segment(attempt, {"lane/preflight.json": b'{"guards": []}'}, seq=7)

    with pytest.raises(PlanPurgedError):
        intake.receive_segment(
            attempt,
            7,
            stream=PurgingStream(data, purging.whole_plan(attempt.lane.plan)),
            length=len(data),
            content_digest=content_digest(data),
            at=NOW,
        )

    swept()
    assert keys("zip") == []
    assert not Segment.objects.filter(seq=7).exists()
    assert findings() == []


class PurgingStream(io.BytesIO):
    """A body in the midst of which something is purged, and perhaps removed at once."""

    def __init__(self, data: bytes, target: Target, *, is_swept: bool = False) -> None:
        super().__init__(data)
        self.target = target
        self.is_swept = is_swept

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() == 0:
            purging.purge(self.target, **WHO)
            if self.is_swept:
                swept()
        return super().read(size)


def test_refused_segment_that_was_purged_is_turned_away_before_it_is_stored_again() -> None:
    attempt = make_attempt(make_plan())
    data = broken_segment(attempt)
    make_run(attempt)
    purging.purge(purging.one_segment(attempt.lane.plan, attempt.key, 90), **WHO)
    swept()

    with pytest.raises(intake.SegmentRefusedError, match="Purged by user:maintainer"):
        send_segment(attempt, data, seq=90)

    assert len(keys("zip")) == 2
    assert findings() == []


@pytest.mark.parametrize("is_swept", [True, False])
def test_refused_segment_that_is_purged_while_it_is_sent_again_is_not_back(
    *, is_swept: bool
) -> None:
    """The second upload has looked for a removal before there was one, and stores after it."""
    attempt = make_attempt(make_plan())
    data = broken_segment(attempt)
    target = purging.one_segment(attempt.lane.plan, attempt.key, 90)

    with pytest.raises(intake.SegmentRefusedError):
        intake.receive_segment(
            attempt,
            90,
            stream=PurgingStream(data, target, is_swept=is_swept),
            length=len(data),
            content_digest=content_digest(data),
            at=NOW,
        )
    swept()

    assert keys("zip") == []
    assert findings() == []


def test_purged_segment_is_answered_with_its_receipt_and_not_stored_again() -> None:
    attempt = make_attempt(make_plan())
    data = make_segment(attempt, {"lane/preflight.json": b'{"guards": []}'})
    first = send_segment(attempt, data)
    purging.purge(purging.one_segment(attempt.lane.plan, attempt.key, 1), **WHO)
    swept()

    again = send_segment(attempt, data)

    assert (again.receipt, again.is_new, keys("zip")) == (first.receipt, False, [])


def test_run_takes_its_whole_segments_along_and_preview_says_so() -> None:
    attempt = make_attempt(make_plan(epochs=2))
    first, second = run_keys(attempt)[:2]
    shared = {f"{run_folder(key)}/files/a": b"text of both" for key in (first, second)}
    make_run(attempt, first, turns=0)
    make_run(attempt, second, turns=0)
    send_members(attempt, shared)
    run = Run.objects.get(epoch=first.epoch, scenario=first.scenario, arm=first.arm)

    told = purging.preview(purging.one_run(run))
    purging.purge(purging.one_run(run), **WHO)
    swept()

    assert (told.sums.segments, told.runs, told.records) == (2, 2, 1)
    assert list(Segment.objects.filter(gone_at__isnull=True).values_list("seq", flat=True)) == [2]
    assert Removal.objects.get().subject.endswith(f"of {attempt.key}")


def test_pinned_plan_is_purged_only_by_somebody_who_means_it() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    plan = attempt.lane.plan
    pins.pin_plan(plan, reason="Shown to the customer.", actor="user:other", at=NOW)

    with pytest.raises(purging.PlanPinnedError, match="maintainer: Shown to the customer"):
        purging.purge(purging.whole_plan(plan), **WHO)
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.OPEN
    purging.purge(purging.whole_plan(plan), even_pinned=True, **WHO)

    swept()
    assert keys("zip") == []


def test_nothing_is_purged_twice() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    purging.purge(purging.one_attempt(attempt.lane.plan, attempt.key), **WHO)

    with pytest.raises(purging.NothingToPurgeError):
        purging.purge(purging.one_attempt(attempt.lane.plan, attempt.key), **WHO)
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    with pytest.raises(purging.NothingToPurgeError):
        purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    swept()
    assert set(Removal.objects.values_list("scope", "segments")) == {
        (RemovalScope.ATTEMPT, 2),
        (RemovalScope.PLAN, 0),
    }


def test_damaged_bytes_leave_a_tombstone_of_what_rows_know() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    for segment in Segment.objects.all():
        object_store().put(segment.object_key, io.BytesIO(b"other bytes"))
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    swept()

    told = tombstone_of(Segment.objects.get(seq=1))
    assert not told.is_whole
    assert {item.path for item in told.items} == set(
        Item.objects.filter(segment__seq=1).values_list("path", flat=True)
    )
    assert [call.value for item in told.items for call in item.judge] == [1.0]
    assert findings() == []


def test_bytes_that_are_back_are_told_of_and_go_again_when_mended() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    segment = Segment.objects.get(seq=1)
    with object_store().open(segment.object_key) as file:
        data = file.read()
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    swept()
    object_store().put(segment.object_key, io.BytesIO(data))

    (finding,) = findings()
    assert (finding.grade.value, finding.key, finding.is_fault) == (
        "returned",
        segment.object_key,
        True,
    )
    (mended,) = check_store.store_findings(Scope(), looked=check_store.Looked(), mend=True)
    assert mended.is_mended
    assert findings() == []


def test_check_store_counts_what_was_removed(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    swept()

    call_command("check_store")

    assert "2 segments were purged or removed because of their age." in capsys.readouterr().out


def test_lost_tombstone_is_missed_and_written_again() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    swept()
    for key in keys("purged.json"):
        object_store().delete(key)

    assert {finding.grade.value for finding in findings()} == {"missing"}
    list(check_store.store_findings(Scope(), looked=check_store.Looked(), mend=True))

    assert findings() == []
    assert not tombstone_of(Segment.objects.get(seq=1)).is_whole


def test_storage_is_counted_once_and_taken_off_when_bytes_are_gone() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    broken_segment(attempt)
    plan = attempt.lane.plan
    sizes = {s.segment_class: s.size_bytes for s in Segment.objects.all()}
    refused = Refusal.objects.get().size_bytes

    assert (counting.count_stored(), counting.count_stored()) == (3, 0)
    before = {use.stored_class: use for use in queries.storage_of_project(plan.project)}
    purging.purge(purging.one_segment(plan, attempt.key, 1), **WHO)
    purging.purge(purging.one_segment(plan, attempt.key, 90), **WHO)
    swept()

    assert {name: use.size_bytes for name, use in before.items()} == {**sizes, "refused": refused}
    after = {use.stored_class: use for use in queries.storage_of_plan(plan)}
    assert after["record"][1:] == (0, 0, 1, sizes["record"])
    assert after["bulk"][1:] == (1, sizes["bulk"], 0, 0)
    assert after["refused"][1:] == (0, 0, 1, refused)


def test_what_was_never_counted_is_taken_off_nothing() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    removals.sweep_removals(at=NOW)
    counting.count_stored()

    assert set(PlanStorage.objects.values_list("segments", "size_bytes", "removed_segments")) == {
        (0, 0, 1)
    }


def test_sweep_goes_in_small_steps_and_ends() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    make_file(attempt, "a", b"text")
    removal = purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    assert [removals.carry_out(removal, most=1, at=NOW) for _ in range(2)] == [1, 1]
    assert Removal.objects.get().finished_at is None
    assert len(keys("zip")) == 1

    assert removals.carry_out(removal, most=5, at=NOW + timedelta(seconds=10)) == 1
    assert Removal.objects.get().finished_at == NOW + timedelta(seconds=10)
    assert removals.sweep_removals(at=NOW) == 0


def test_store_that_is_away_is_noted_and_the_next_sweep_goes_on(
    settings: Settings, tmp_path: Path
) -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    (tmp_path / "file").write_bytes(b"")
    there, settings.OBJECTS_DIR = settings.OBJECTS_DIR, tmp_path / "file" / "objects"

    assert removals.sweep_removals(at=NOW) == 0
    settings.OBJECTS_DIR = there

    assert queries.storage_faults_since(NOW).count() == 1
    assert removals.sweep_removals(at=NOW) == 2
    assert keys("zip") == []


def test_tombstone_beside_bytes_is_true_and_the_next_sweep_ends_it() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    removal = purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    for segment in Segment.objects.all():
        removals.write_tombstone(segment, tombstones.order_of(removal))
    before = [tombstone_of(segment) for segment in Segment.objects.order_by("seq")]

    assert findings() == []
    assert swept() == 2

    assert keys("zip") == []
    assert [tombstone_of(segment) for segment in Segment.objects.order_by("seq")] == before


def test_bytes_gone_before_the_row_says_so_is_no_loss_and_the_next_sweep_ends_it() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    removal = purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)
    for segment in Segment.objects.all():
        removals.write_tombstone(segment, tombstones.order_of(removal))
        object_store().delete(segment.object_key)

    assert findings() == []
    assert swept() == 2

    assert tombstone_of(Segment.objects.get(seq=1)).is_whole
    assert findings() == []


def test_segments_that_nobody_knows_go_with_their_plan() -> None:
    attempt = make_attempt(make_plan())
    seal_attempt(attempt)
    key = objects.segment_key(attempt, seq=5, sha256="sha256:" + "a" * 64)
    object_store().put(key, io.BytesIO(b"of an upload that came to nothing"))
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    swept()

    assert keys("zip") == []


def test_purge_of_records_has_the_plan_concluded_anew() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    plan = attempt.lane.plan
    version = Plan.objects.values_list("inputs_version", flat=True)

    before = version.get(pk=plan.pk)
    purging.purge(purging.one_segment(plan, attempt.key, 2), **WHO)
    assert version.get(pk=plan.pk) == before
    purging.purge(purging.one_segment(plan, attempt.key, 1), **WHO)
    assert version.get(pk=plan.pk) == before + 1

    assert queries.removed_records(plan) == (
        [f"{attempt.lane.name} #1"],
        [f"{attempt.lane.name} #1"],
    )


def test_receipt_and_tombstone_are_there_before_bytes_go() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    for segment in Segment.objects.all():
        object_store().delete(objects.receipt_key(segment.object_key))
    purging.purge(purging.whole_plan(attempt.lane.plan), **WHO)

    swept()

    for segment in Segment.objects.all():
        with object_store().open(objects.receipt_key(segment.object_key)) as file:
            assert json.load(file) == segment.receipt


def test_storage_of_a_project_is_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    counting.count_stored()

    with django_assert_num_queries(1):
        queries.storage_of_project(attempt.lane.plan.project)
