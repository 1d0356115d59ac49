"""Receiving segments: what is kept, what is counted, what is answered again."""

import io
import json

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import run_folder
from evidence.store import queries
from evidence.store.models import Item, JudgeCall, Refusal, Run, Score, Segment
from evidence.store.operations import intake, objects, recording, uploads
from evidence.store.storage import object_store
from lanes.plans.models import Plan
from tests.evidence.factories import (
    content_digest,
    first_run_key,
    judge_line,
    make_run,
    make_segment,
    ndjson,
    result_bytes,
    run_keys,
    send_members,
    send_segment,
    transcript_bytes,
)
from tests.lanes.factories import NOW, make_attempt

pytestmark = pytest.mark.django_db


def test_segment_is_stored_as_it_was_sent() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"started\n"})

    received = send_segment(attempt, data)

    segment = Segment.objects.get()
    with object_store().open(segment.object_key) as file:
        assert file.read() == data
    assert received.is_new
    assert received.receipt.sha256 == segment.sha256 == bytes_digest(data)
    assert (received.receipt.accepted, received.receipt.refused) == (1, [])


def test_objects_lie_where_the_wire_says() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"started\n"})

    send_segment(attempt, data)

    plan = attempt.lane.plan
    folder = f"{plan.project.name}/{plan.digest}"
    name = f"{folder}/ordinary-1/{attempt.key}/1-{bytes_digest(data).removeprefix('sha256:')}"
    assert list(object_store().keys()) == sorted(
        [
            f"{folder}/plan.json",
            f"{folder}/policy.json",
            f"{folder}/ordinary-1/{attempt.key}/attempt.json",
            f"{name}.zip",
            f"{name}.receipt.json",
        ]
    )
    with object_store().open(f"{folder}/plan.json") as file:
        assert bytes_digest(file.read()) == plan.digest
    with object_store().open(f"{name}.receipt.json") as file:
        assert json.load(file) == Segment.objects.get().receipt


def test_run_is_made_of_its_items() -> None:
    attempt = make_attempt()

    run = make_run(attempt, outcome="failed", value=0.0, turns=4)

    assert (run.outcome, run.duration_ms, run.transcript_parts) == ("failed", 12_400, 1)
    items = queries.items_of_run(run)
    assert [(item.kind, item.part, item.lines) for item in items] == [
        ("judge", 1, 1),
        ("result", None, None),
        ("transcript", 1, 4),
    ]
    assert queries.item_bytes(items[2]) == transcript_bytes(4)


def test_transcript_before_its_result_makes_a_run_without_outcome() -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))

    send_members(attempt, {f"{folder}/transcript.1.ndjson": transcript_bytes()})
    early = Run.objects.get()
    send_members(attempt, {f"{folder}/result.json": result_bytes("agent_error")})

    assert early.outcome is None
    assert Run.objects.get().outcome == "agent_error"


def test_score_is_the_mean_of_the_repeats_that_have_a_value() -> None:
    attempt = make_attempt()
    lines = [
        judge_line(1.0),
        judge_line(None, repeat=2),
        judge_line(0.0, repeat=3),
        judge_line(1.0, repeat=4),
    ]

    run = make_run(attempt, judge_lines=lines)

    score = Score.objects.get(run=run, rubric="resolved")
    assert score.value == pytest.approx(2 / 3)
    assert (score.stage, score.repeats) == ("check", 4)
    assert JudgeCall.objects.filter(run=run).count() == 4


def test_score_counts_repeats_that_come_in_a_later_segment() -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))
    told_twice = judge_line(1.0)

    send_members(attempt, {f"{folder}/judge.1.ndjson": ndjson(told_twice)})
    send_members(attempt, {f"{folder}/judge.2.ndjson": ndjson(told_twice, judge_line(0.0))})

    score = Score.objects.get(rubric="resolved")
    assert (score.value, score.repeats) == (0.5, 2)


def test_score_without_any_value_is_null_not_zero() -> None:
    run = make_run(make_attempt(), value=None)

    assert Score.objects.get(run=run, rubric="resolved").value is None


def test_measured_scores_are_those_that_the_policy_reads_from_results() -> None:
    run = make_run(make_attempt(), scores={"latency_s": 3.5, "steps": 14, "resolved": 1.0})

    score = Score.objects.get(run=run, stage="result")
    assert (score.rubric, score.value, score.fingerprint) == ("latency_s", 3.5, "")


def test_unknown_fingerprint_is_kept_for_the_gate_to_see() -> None:
    other = bytes_digest(b"another judge")

    run = make_run(make_attempt(), judge_lines=[judge_line(1.0, fingerprint=other)])

    assert Score.objects.get(run=run, rubric="resolved").fingerprint == other
    assert not Refusal.objects.exists()


def test_same_bytes_again_give_the_same_receipt() -> None:
    attempt = make_attempt()
    data = make_segment(
        attempt, {f"{run_folder(first_run_key(attempt))}/result.json": result_bytes()}
    )

    first = send_segment(attempt, data)
    again = send_segment(attempt, data, at=NOW.replace(hour=13))

    assert first.is_new
    assert not again.is_new
    assert again.receipt == first.receipt
    assert Segment.objects.count() == Item.objects.count() == Run.objects.count() == 1


def test_other_bytes_under_a_taken_seq_name_both_digests() -> None:
    attempt = make_attempt()
    kept = make_segment(attempt, {"lane/logs/agent.1.log": b"one"})
    other = make_segment(attempt, {"lane/logs/agent.1.log": b"two"})
    send_segment(attempt, kept)

    with pytest.raises(recording.SegmentConflictError) as caught:
        send_segment(attempt, other)

    assert bytes_digest(kept) in caught.value.detail
    assert bytes_digest(other) in caught.value.detail
    assert Segment.objects.get().sha256 == bytes_digest(kept)


def test_same_item_in_another_segment_is_accepted_without_a_second_row() -> None:
    attempt = make_attempt()
    members = {"lane/logs/agent.1.log": b"started\n"}
    send_members(attempt, members)

    again = send_members(attempt, members)

    assert (again.receipt.accepted, again.receipt.refused) == (1, [])
    assert Item.objects.count() == 1


def test_each_received_segment_moves_the_inputs_of_its_plan() -> None:
    attempt = make_attempt()
    before = Plan.objects.get().inputs_version

    send_members(attempt, {"lane/logs/agent.1.log": b"started\n"})

    assert Plan.objects.get().inputs_version == before + 1


def test_segment_is_a_sign_of_life() -> None:
    attempt = make_attempt()
    later = NOW.replace(hour=14)

    send_members(attempt, {"lane/logs/agent.1.log": b"started\n"}, at=later)

    attempt.refresh_from_db()
    assert attempt.last_heard_at == later


def test_many_runs_in_one_segment() -> None:
    attempt = make_attempt(None, "ordinary-2")
    members = {f"{run_folder(key)}/result.json": result_bytes() for key in run_keys(attempt)}

    received = send_members(attempt, members)

    assert received.receipt.accepted == len(members) == Run.objects.count() > 1


@pytest.mark.parametrize(
    ("header", "error", "words"),
    [
        ("", uploads.ContentDigestError, "no Content-Digest"),
        ("sha-256=abc", uploads.ContentDigestError, "sha-256 value of 32 bytes"),
        ("sha-256=:AAAA:", uploads.ContentDigestError, "sha-256 value of 32 bytes"),
        ("sha-512=:AAAA:", uploads.ContentDigestError, "sha-256 value of 32 bytes"),
        ("sha-256", uploads.ContentDigestError, "sha-256 value of 32 bytes"),
        ("nope nope", uploads.ContentDigestError, "cannot be read"),
        ("sha-256=:é:", uploads.ContentDigestError, "cannot be read"),
        (content_digest(b"other bytes"), uploads.DigestMismatchError, "as Content-Digest says"),
    ],
)
def test_digest_that_is_absent_malformed_or_wrong_keeps_nothing(
    header: str, error: type[Exception], words: str
) -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"started\n"})

    with pytest.raises(error, match=words):
        send_segment(attempt, data, digest=header)

    assert list(object_store().keys()) == []
    assert not Segment.objects.exists()
    assert not Refusal.objects.exists()


class BrokenStream(io.BytesIO):
    """A connection that is reset once its bytes have come."""

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size)
        if not chunk:
            raise ConnectionResetError
        return chunk


@pytest.mark.parametrize("stream", [io.BytesIO, BrokenStream])
def test_upload_that_ends_early_keeps_nothing(stream: type[io.BytesIO]) -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"started\n"})

    with pytest.raises(uploads.UploadIncompleteError, match=f"{len(data)} of the {len(data) + 1}"):
        intake.receive_segment(
            attempt,
            1,
            stream=stream(data),
            length=len(data) + 1,
            content_digest=content_digest(data),
            at=NOW,
        )

    assert list(object_store().keys()) == []


def test_put_attempt_documents_again_changes_nothing() -> None:
    attempt = make_attempt()
    objects.put_attempt_documents(attempt)
    before = list(object_store().keys())

    objects.put_attempt_documents(attempt)

    assert list(object_store().keys()) == before
