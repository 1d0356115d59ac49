"""The seal: what is missing, what differs, and when an attempt has ended."""

import json

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.messages import SealRequest
from evalhub.protocol.paths import run_folder
from evidence.store import queries
from evidence.store.operations import sealing
from evidence.store.storage import object_store
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts
from tests.evidence.factories import (
    first_run_key,
    make_refusal,
    make_run,
    make_sealed_lane,
    make_segment,
    result_bytes,
    seal_request,
    send_members,
    send_segment,
)
from tests.lanes.factories import NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db


def stored_seals() -> list[str]:
    keys = list(object_store().keys())
    return [key for key in keys if key.endswith("/seal.json")]


def test_seal_lists_what_is_missing_and_ends_the_attempt_all_the_same() -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))
    send_members(attempt, {f"{folder}/result.json": result_bytes(transcript_parts=2)})

    answer = sealing.seal(attempt, seal_request(attempt, final=True), at=NOW)

    assert answer.sealed
    assert answer.missing == [
        f"{folder}/transcript.1.ndjson",
        f"{folder}/transcript.2.ndjson",
        f"{folder}/judge (resolved)",
    ]
    attempt.refresh_from_db()
    assert (attempt.state, attempt.ended_at) == ("SEALED", NOW)


def test_seal_that_is_not_final_only_lists() -> None:
    attempt = make_attempt()

    answer = sealing.seal(attempt, seal_request(attempt, final=False), at=NOW)

    assert not answer.sealed
    assert answer.missing == [f"{run_folder(first_run_key(attempt))}/result.json"]
    attempt.refresh_from_db()
    assert attempt.state == "OPEN"
    assert stored_seals() == []


def test_seal_names_the_lanes_own_records() -> None:
    plan = make_plan(lane={"expects": {"run": ["result"], "lane": ["environment", "log:agent"]}})
    attempt = make_attempt(plan)
    send_members(attempt, {"lane/environment.json": b'{"tier": "containerized"}'})

    answer = sealing.seal(attempt, seal_request(attempt, final=False), at=NOW)

    assert answer.missing[1:] == ["lane/logs/agent.1.log"]


def test_seal_lists_what_was_refused() -> None:
    attempt = make_attempt()
    refusal = make_refusal(attempt)

    answer = sealing.seal(attempt, seal_request(attempt, final=False), at=NOW)

    assert [(r.path, r.category, r.code) for r in answer.refused] == [
        (refusal.path, "unexpected", "not_planned")
    ]


def test_sealing_again_gives_the_same_answer() -> None:
    attempt = make_attempt()
    make_run(attempt)
    request = seal_request(attempt, final=True)

    first = sealing.seal(attempt, request, at=NOW)
    version = Plan.objects.get().inputs_version
    again = sealing.seal(attempt, request, at=NOW.replace(hour=15))

    assert first == again
    assert Plan.objects.get().inputs_version == version


def test_seal_is_kept_as_an_object() -> None:
    attempt = make_attempt()
    make_run(attempt)
    request = seal_request(attempt, final=True)

    sealing.seal(attempt, request, at=NOW)

    (key,) = stored_seals()
    with object_store().open(key) as file:
        assert json.load(file) == {
            "segments": 2,
            "digest": request.digest,
            "sealed_at": "2026-11-29T12:00:00Z",
        }


def test_seal_with_segments_that_did_not_arrive_names_them() -> None:
    attempt = make_attempt()
    for seq in (1, 3):
        data = make_segment(attempt, {f"lane/logs/agent.{seq}.log": b"text"}, seq=seq)
        send_segment(attempt, data, seq=seq)
    request = SealRequest(segments=4, digest=bytes_digest(b""), final=True)

    with pytest.raises(sealing.SegmentsMissingError, match="without seq 2, 4"):
        sealing.seal(attempt, request, at=NOW)

    attempt.refresh_from_db()
    assert attempt.state == "OPEN"


def test_seal_with_another_digest_lists_the_digests_that_were_received() -> None:
    attempt = make_attempt()
    make_run(attempt)
    request = SealRequest(segments=2, digest=bytes_digest(b""), final=True)

    with pytest.raises(sealing.SegmentsMissingError) as caught:
        sealing.seal(attempt, request, at=NOW)

    told = {fault.pointer: fault.got for fault in caught.value.faults}
    assert told == {f"/{seq}": sha256 for seq, sha256 in queries.segment_digests(attempt)}


def test_seal_with_any_count_is_answered_at_once() -> None:
    attempt = make_attempt()
    request = SealRequest(segments=2**53 - 1, digest=bytes_digest(b""), final=True)

    with pytest.raises(sealing.SegmentsMissingError, match="without seq 1, 2, 3"):
        sealing.seal(attempt, request, at=NOW)


def test_seal_with_fewer_segments_than_were_received_is_refused() -> None:
    attempt = make_attempt()
    make_run(attempt)
    request = SealRequest(segments=0, digest=bytes_digest(b"[]"), final=True)

    with pytest.raises(sealing.SegmentsMissingError, match="2 that were received"):
        sealing.seal(attempt, request, at=NOW)


def test_superseded_attempt_is_not_sealed() -> None:
    attempt = make_attempt()
    make_attempt(attempt.lane.plan)

    with pytest.raises(attempts.AttemptEndedError, match="superseded"):
        sealing.seal(attempt, seal_request(attempt, final=True), at=NOW)

    assert Attempt.objects.get(pk=attempt.pk).state == "SUPERSEDED"


def test_whole_lane_leaves_nothing_missing() -> None:
    plan = make_plan(epochs=2)
    for lane in ("ordinary-1", "ordinary-2"):
        make_sealed_lane(make_attempt(plan, lane))

    assert [(c.missing, c.lane_missing, c.state) for c in queries.missing_evidence(plan)] == [
        ({}, [], "SEALED"),
        ({}, [], "SEALED"),
    ]
