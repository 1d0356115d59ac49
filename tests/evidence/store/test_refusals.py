"""Every way in which evidence does not count, by its category and code."""

import io
import json
import zipfile
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Refused
from evidence.store import queries
from evidence.store.models import Item, Refusal, Run, Score, Segment
from evidence.store.operations.intake import SegmentRefusedError
from lanes.budget import queries as budget_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import attempts
from tests.evidence.factories import (
    first_run_key,
    judge_line,
    make_refusal,
    make_segment,
    ndjson,
    result_bytes,
    run_keys,
    seal_attempt,
    send_members,
    send_segment,
    transcript_bytes,
    turn_line,
)
from tests.lanes.factories import NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db


def folder_of(attempt: Attempt) -> str:
    return run_folder(first_run_key(attempt))


def only_refusal(attempt: Attempt, path: str, data: bytes, **header: Any) -> Refused:
    """Send one item, and return why it was refused."""
    receipt = send_members(attempt, {path: data}, **header).receipt
    assert (receipt.accepted, len(receipt.refused)) == (0, 1)
    assert not Item.objects.exists()
    assert not Run.objects.exists()
    refusal = Refusal.objects.get()
    assert (refusal.path, refusal.category) == (path, receipt.refused[0].category)
    assert queries.refusal_bytes(refusal) == data
    assert refusal.sha256 == bytes_digest(data)
    return receipt.refused[0]


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (RunKey("nobody-planned-this", "candidate", 1), "not_planned"),
        (RunKey("order-lookup", "candidate", 99), "not_planned"),
        (RunKey("order-lookup", "another-arm", 1), "not_planned"),
        (RunKey("order-\x1b[2Jlookup", "candidate", 1), "not_planned"),
        (RunKey("refund-twice", "candidate", 1), "other_lane"),
    ],
)
def test_run_key_that_is_not_the_lanes_is_unexpected(key: RunKey, code: str) -> None:
    refused = only_refusal(make_attempt(), f"{run_folder(key)}/result.json", result_bytes())

    assert refused.detail.isprintable()
    assert (refused.category, refused.code) == ("unexpected", code)


@pytest.mark.parametrize(("leaf", "class_"), [("result.json", "bulk"), ("files/a", "record")])
def test_item_in_a_segment_of_the_other_class_is_unexpected(leaf: str, class_: str) -> None:
    attempt = make_attempt()

    refused = only_refusal(attempt, f"{folder_of(attempt)}/{leaf}", result_bytes(), class_=class_)

    assert (refused.category, refused.code) == ("unexpected", "other_class")


def test_second_different_item_for_a_path_is_a_duplicate() -> None:
    attempt = make_attempt()
    path = f"{folder_of(attempt)}/result.json"
    send_members(attempt, {path: result_bytes("failed")})

    receipt = send_members(attempt, {path: result_bytes("passed")}).receipt

    assert [(r.path, r.category, r.code) for r in receipt.refused] == [
        (path, "duplicate", "path_taken")
    ]
    assert Run.objects.get().outcome == "failed"
    assert queries.refusal_bytes(Refusal.objects.get()) == result_bytes("passed")


MALFORMED = [
    ("result.json", b"{", "invalid_record", "not JSON"),
    ("result.json", b"\xff\xfe", "invalid_record", "not JSON"),
    ("result.json", b"\xef\xbb\xbf{}", "invalid_record", "not JSON"),
    ("result.json", b"[" * 100_000, "invalid_record", "not JSON"),
    ("result.json", b"[]", "invalid_record", "the document"),
    ("result.json", result_bytes("won"), "invalid_record", "/outcome"),
    ("result.json", result_bytes(duration_ms=-1), "invalid_record", "/duration_ms"),
    ("result.json", result_bytes(duration_ms=1.5), "invalid_record", "/duration_ms"),
    ("result.json", result_bytes(started_at="yesterday"), "invalid_record", "/started_at"),
    ("result.json", result_bytes(scores={"latency_s": float("nan")}), "invalid_record", "/scores"),
    ("result.json", result_bytes(scores={"latency_s": float("inf")}), "invalid_record", "/scores"),
    ("result.json", result_bytes(novel=1), "invalid_record", "/novel"),
    ("result.json", result_bytes(transcript_parts=10_001), "invalid_record", "/transcript_parts"),
    ("failure.json", b'{"category": "x"}', "invalid_record", "/root_cause"),
    ("transcript.1.ndjson", b"", "empty", "no line"),
    ("transcript.1.ndjson", transcript_bytes()[:-9], "truncated", "Line 3, the last"),
    ("transcript.1.ndjson", b"{}\n" + transcript_bytes(), "invalid_line", "Line 1: /turn"),
    ("transcript.1.ndjson", b"\n" + transcript_bytes(), "invalid_line", "Line 1"),
    # Two broken lines that would be one good line together.
    ("transcript.1.ndjson", transcript_bytes(1).replace(b", ", b"\n", 1), "invalid_line", "Line 1"),
    ("transcript.1.ndjson", b"\xff\n" + transcript_bytes(), "invalid_line", "Line 1"),
    (
        "transcript.1.ndjson",
        ndjson(turn_line(1, " ".join(map(str, range(300_000))))),
        "too_large",
        "at most",
    ),
    ("result.json", result_bytes(scores={"latency_s": 1.1e15}), "invalid_record", "to 1e15"),
    ("result.json", result_bytes(scores={"latency_s": -(10**16)}), "invalid_record", "to 1e15"),
    ("judge.1.ndjson", b"", "empty", "no line"),
    ("judge.1.ndjson", ndjson(judge_line(1e308)), "invalid_line", "from -1e15 to 1e15"),
    ("judge.1.ndjson", ndjson(judge_line(cost_microusd=10**12 + 1)), "invalid_line", "/cost"),
    ("judge.1.ndjson", ndjson(judge_line(float("nan"))), "invalid_line", "/value"),
    ("judge.1.ndjson", ndjson(judge_line(None, unscored_reason=None)), "invalid_line", "a value"),
    ("judge.1.ndjson", ndjson(judge_line(repeat=0)), "invalid_line", "/repeat"),
    ("judge.1.ndjson", ndjson(judge_line(call_id="first")), "invalid_line", "/call_id"),
    ("judge.1.ndjson", ndjson(*[judge_line(call_id=str(uuid4()))] * 2), "repeated_call", "call_id"),
    ("files/body-" + "0" * 64, b"text", "wrong_digest", "has the digest"),
    ("files/" + "a" * 301, b"text", "invalid_path", "at most 300 characters"),
    ("files/a%00b", b"text", "invalid_path", "control character"),
]


@pytest.mark.parametrize(("leaf", "data", "code", "words"), MALFORMED)
def test_malformed_item_says_where_and_what(leaf: str, data: bytes, code: str, words: str) -> None:
    attempt = make_attempt()

    refused = only_refusal(attempt, f"{folder_of(attempt)}/{leaf}", data)

    assert (refused.category, refused.code) == ("malformed", code)
    assert words in refused.detail


@pytest.mark.parametrize(
    "path",
    [
        "runs/order-lookup/candidate/0/result.json",
        "runs/order-lookup/candidate/01/result.json",
        "runs/order-lookup/candidate/1/judge.0.ndjson",
        "runs/order-lookup/candidate/1/surprise.json",
        "runs/order%2dlookup/candidate/1/result.json",
        "runs/a.b/candidate/1/result.json",
        "lane/unheard-of.json",
        "elsewhere/result.json",
        "\u00e9/result.json",
    ],
)
def test_path_that_the_wire_does_not_know_is_malformed(path: str) -> None:
    refused = only_refusal(make_attempt(), path, b"{}", class_="record")

    assert (refused.category, refused.code) == ("malformed", "invalid_path")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("lane/preflight.json", b"{}"),
        ("lane/environment.json", b'{"tier": "imaginary"}'),
        ("lane/redactions.json", b'{"counts": {"key": -1}}'),
        ("lane/faults.1.ndjson", b"[]\n"),
        ("lane/probes.1.ndjson", b"{}\n{"),
    ],
)
def test_malformed_record_of_a_lane_is_refused(path: str, data: bytes) -> None:
    refused = only_refusal(make_attempt(), path, data)

    assert refused.category == "malformed"


def test_their_fields_may_hold_anything() -> None:
    attempt = make_attempt()
    tool = {"name": "t", "call_id": None, "arguments": '{"a": NaN, "a": 1' + "0" * 400 + "}"}
    lines = [
        turn_line(1, "\u202e\x00 <script>", tool=tool),
        turn_line(2, extra={"n": float("nan"), "big": 10**30, "deep": [[[1]]]}),
    ]

    receipt = send_members(
        attempt, {f"{folder_of(attempt)}/transcript.1.ndjson": ndjson(*lines)}
    ).receipt

    assert (receipt.accepted, receipt.refused) == (1, [])


def test_last_line_without_a_line_break_is_no_fault_of_its_own() -> None:
    attempt = make_attempt()
    path = f"{folder_of(attempt)}/transcript.1.ndjson"

    receipt = send_members(attempt, {path: transcript_bytes(3)[:-1]}).receipt

    assert receipt.accepted == 1
    assert Item.objects.get().lines == 3


def test_body_under_its_own_digest_is_accepted() -> None:
    attempt = make_attempt()
    name = bytes_digest(b"a long text").removeprefix("sha256:")

    receipt = send_members(
        attempt, {f"{folder_of(attempt)}/files/body-{name}": b"a long text"}
    ).receipt

    assert receipt.accepted == 1


def test_sound_items_beside_a_refused_one_count() -> None:
    attempt = make_attempt()
    folder = folder_of(attempt)

    receipt = send_members(
        attempt, {f"{folder}/failure.json": b"{", f"{folder}/result.json": result_bytes()}
    ).receipt

    assert (receipt.accepted, [r.path for r in receipt.refused]) == (1, [f"{folder}/failure.json"])
    assert Run.objects.get().outcome == "passed"


def test_segment_after_the_seal_is_received_and_all_of_it_stale() -> None:
    attempt = make_attempt()
    seal_attempt(attempt)

    receipt = send_members(attempt, {f"{folder_of(attempt)}/result.json": result_bytes()}).receipt

    assert receipt.accepted == 0
    assert [(r.category, r.code) for r in receipt.refused] == [("stale", "attempt_sealed")]
    assert Segment.objects.count() == 1
    assert not Run.objects.exists()


def test_segment_of_a_superseded_attempt_is_stale() -> None:
    attempt = make_attempt()
    make_attempt(attempt.lane.plan)

    receipt = send_members(attempt, {f"{folder_of(attempt)}/result.json": result_bytes()}).receipt

    assert [(r.category, r.code) for r in receipt.refused] == [("stale", "attempt_superseded")]


def test_what_came_before_an_attempt_was_superseded_stands() -> None:
    attempt = make_attempt()
    send_members(attempt, {f"{folder_of(attempt)}/result.json": result_bytes("failed")})

    make_attempt(attempt.lane.plan)

    assert queries.run_rows([attempt.lane.plan_id])[0].outcome == "failed"


def test_segment_of_another_commit_is_stale() -> None:
    attempt = make_attempt()

    refused = only_refusal(
        attempt, f"{folder_of(attempt)}/result.json", result_bytes(), tested_sha="d" * 40
    )

    assert (refused.category, refused.code) == ("stale", "other_commit")


@pytest.mark.parametrize(("minutes", "accepted"), [(4, 1), (6, 0)])
def test_segment_made_long_before_its_attempt_is_stale(minutes: int, accepted: int) -> None:
    attempt = make_attempt()
    path = f"{folder_of(attempt)}/result.json"

    receipt = send_members(
        attempt, {path: result_bytes()}, created_at=NOW - timedelta(minutes=minutes)
    ).receipt

    assert receipt.accepted == accepted
    assert [r.code for r in receipt.refused] == ["made_before_attempt"] * (1 - accepted)


@pytest.mark.parametrize(("minutes", "accepted"), [(5, 1), (6, 0)])
def test_segment_from_the_future_is_stale(minutes: int, accepted: int) -> None:
    attempt = make_attempt()
    line = judge_line(cost_microusd=40)

    receipt = send_members(
        attempt,
        {f"{folder_of(attempt)}/judge.1.ndjson": ndjson(line)},
        created_at=NOW + timedelta(minutes=minutes),
    ).receipt

    assert receipt.accepted == accepted
    assert [r.code for r in receipt.refused] == ["made_in_future"] * (1 - accepted)
    assert all("set the clock" in r.detail for r in receipt.refused)
    assert budget_queries.spend_of_plan(attempt.lane.plan.digest).spent_microusd == 40


@pytest.mark.parametrize("opened", [timedelta(), timedelta(hours=2)])
@pytest.mark.parametrize("made", [timedelta(), timedelta(hours=2)])
def test_segment_is_taken_though_the_servers_clock_was_set_back(
    opened: timedelta, made: timedelta
) -> None:
    attempt = make_attempt(make_plan(at=NOW + opened), at=NOW + opened)
    attempts.touch_attempt(attempt, at=NOW + timedelta(hours=2))

    receipts = []
    for seq, late in enumerate((timedelta(), timedelta(minutes=1)), start=1):
        attempt.refresh_from_db()
        path = f"lane/logs/agent.{seq}.log"
        created_at = NOW + made + late
        data = make_segment(attempt, {path: b"x"}, seq=seq, created_at=created_at)
        receipts.append(send_segment(attempt, data, seq=seq, at=NOW + late).receipt)

    assert [receipt.accepted for receipt in receipts] == [1, 1]


@pytest.mark.parametrize(
    "change",
    [{"value": 0.0}, {"value": None, "unscored_reason": "judge_error"}, {"rubric": "polite"}],
)
@pytest.mark.parametrize("segments", [1, 2])
def test_call_told_otherwise_in_a_later_part_is_refused(
    change: dict[str, Any], segments: int
) -> None:
    attempt = make_attempt()
    line = judge_line(1.0, call_id=str(uuid4()))
    first, second = (f"{folder_of(attempt)}/judge.{part}.ndjson" for part in (1, 2))
    members = {first: ndjson(line), second: ndjson(judge_line(0.0), line | change)}

    if segments == 1:
        receipt = send_members(attempt, members).receipt
    else:
        send_members(attempt, {first: members[first]})
        receipt = send_members(attempt, {second: members[second]}).receipt

    assert [(r.path, r.category, r.code) for r in receipt.refused] == [
        (second, "duplicate", "call_contradicted")
    ]
    assert line["call_id"] in receipt.refused[0].detail
    assert "before as 1.0 of resolved/check" in receipt.refused[0].detail
    assert [(score.value, score.repeats) for score in Score.objects.filter(stage="check")] == [
        (1.0, 1)
    ]


def test_call_told_alike_in_a_later_part_is_harmless() -> None:
    attempt = make_attempt()
    line = judge_line(1.0, call_id=str(uuid4()))
    send_members(attempt, {f"{folder_of(attempt)}/judge.1.ndjson": ndjson(line)})

    more = ndjson(line, judge_line(0.0))
    receipt = send_members(attempt, {f"{folder_of(attempt)}/judge.2.ndjson": more}).receipt

    assert (receipt.accepted, receipt.refused) == (1, [])
    score = Score.objects.get(stage="check")
    assert (score.value, score.repeats) == (0.5, 2)


def test_same_call_id_in_two_runs_contradicts_nothing() -> None:
    attempt = make_attempt(make_plan(epochs=2))
    call_id = str(uuid4())
    first, second = (run_folder(key) for key in run_keys(attempt)[:2])
    send_members(attempt, {f"{first}/judge.1.ndjson": ndjson(judge_line(1.0, call_id=call_id))})

    receipt = send_members(
        attempt, {f"{second}/judge.1.ndjson": ndjson(judge_line(0.0, call_id=call_id))}
    ).receipt

    assert (receipt.accepted, receipt.refused) == (1, [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("project", "acme/other"),
        ("plan", "sha256:" + "0" * 64),
        ("lane", "ordinary-2"),
        ("attempt", "att_somebodyelse"),
        ("seq", 7),
    ],
)
def test_segment_for_another_address_is_refused_whole(field: str, value: Any) -> None:
    attempt = make_attempt()
    data = make_segment(
        attempt, {f"{folder_of(attempt)}/result.json": result_bytes()}, **{field: value}
    )

    with pytest.raises(SegmentRefusedError, match=f"unexpected \\(other_{field}\\)"):
        send_segment(attempt, data)

    assert_only_quarantined(data, "unexpected", f"other_{field}")


def assert_only_quarantined(data: bytes, category: str, code: str) -> None:
    refusal = Refusal.objects.get()
    assert (refusal.path, refusal.category, refusal.code) == ("", category, code)
    assert queries.refusal_bytes(refusal) == data
    assert not Segment.objects.exists()
    assert not Item.objects.exists()


@pytest.mark.parametrize(
    ("header", "category", "code"),
    [
        ({"schema": "evalhub.segment/2"}, "incompatible", "unknown_schema"),
        ({"records": "evalhub.records/9"}, "incompatible", "unknown_schema"),
        ({"class": "other"}, "malformed", "invalid_header"),
        ({"novel": 1}, "malformed", "invalid_header"),
        ({"created_at": "2026-11-29T12:00:00+01:00"}, "malformed", "invalid_header"),
    ],
)
def test_header_that_cannot_be_read_refuses_the_segment(
    header: dict[str, object], category: str, code: str
) -> None:
    attempt = make_attempt()
    data = with_header(make_segment(attempt, {"lane/logs/a.1.log": b"text"}), header)

    with pytest.raises(SegmentRefusedError, match=f"{category} \\({code}\\)"):
        send_segment(attempt, data)

    assert_only_quarantined(data, category, code)


def with_header(data: bytes, changes: dict[str, object]) -> bytes:
    """Return a segment whose header has some fields replaced."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "segment.json":
                content = json.dumps({**json.loads(content), **changes}).encode()
            new.writestr(name, content)
    return file.getvalue()


def test_segment_without_a_header_is_refused() -> None:
    attempt = make_attempt()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("lane/logs/a.1.log", "text")

    with pytest.raises(SegmentRefusedError, match=r"malformed \(no_header\)"):
        send_segment(attempt, file.getvalue())


def test_header_nested_beyond_reason_is_refused() -> None:
    attempt = make_attempt()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("segment.json", "[" * 60_000)

    with pytest.raises(SegmentRefusedError, match=r"malformed \(invalid_header\)"):
        send_segment(attempt, file.getvalue())


@pytest.mark.parametrize("seq", [0, -1, 1_000_001])
def test_seq_out_of_range_is_refused(seq: int) -> None:
    attempt = make_attempt()

    with pytest.raises(SegmentRefusedError, match=f"seq was {seq}; expected 1 to 1000000"):
        send_segment(attempt, make_segment(attempt, {"lane/logs/a.1.log": b""}), seq=seq)


def test_broken_archive_is_quarantined_once_however_often_it_is_sent() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/a.1.log": b"text"}) + b"\0"

    for _ in range(2):
        with pytest.raises(SegmentRefusedError, match=r"malformed \(no_end_record\)"):
            send_segment(attempt, data)

    assert_only_quarantined(data, "malformed", "no_end_record")


def test_seq_of_a_refused_segment_is_free() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, {"lane/logs/a.1.log": b"text"})
    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, data + b"\0")

    assert send_segment(attempt, data).is_new


def test_item_that_does_not_inflate_is_quarantined_as_it_lies() -> None:
    attempt = make_attempt()
    path = "lane/logs/a.1.log"
    data = bytearray(make_segment(attempt, {path: b"abc" * 1000}))
    start = data.index(path.encode()) + len(path)
    data[start] = 0xFF

    receipt = send_segment(attempt, bytes(data)).receipt

    assert [(r.path, r.category, r.code) for r in receipt.refused] == [
        (path, "malformed", "broken_data")
    ]
    refusal = Refusal.objects.get()
    assert bytes_digest(queries.refusal_bytes(refusal)) == refusal.sha256


def spend(plan: Plan) -> tuple[int, int]:
    found = budget_queries.spend_of_plan(plan.digest)
    return found.spent_microusd, found.unknown_calls


def test_refused_judge_lines_are_paid_for_all_the_same() -> None:
    attempt = make_attempt()
    foreign = run_folder(RunKey("refund-twice", "candidate", 1))
    lines = ndjson(judge_line(cost_microusd=300), judge_line(cost_microusd=None))

    send_members(attempt, {f"{foreign}/judge.1.ndjson": lines})

    assert spend(attempt.lane.plan) == (300, 1)
    assert not Score.objects.exists()


def test_readable_lines_of_a_malformed_item_are_paid_and_the_others_unknown() -> None:
    attempt = make_attempt()
    lines = ndjson(judge_line(cost_microusd=300), judge_line(float("nan"), cost_microusd=40))

    send_members(attempt, {f"{folder_of(attempt)}/judge.1.ndjson": lines + b"garbage\n{\n"})

    assert spend(attempt.lane.plan) == (340, 2)


def test_stale_lines_are_paid_once_however_often_they_come() -> None:
    attempt = make_attempt()
    members = {f"{folder_of(attempt)}/judge.1.ndjson": ndjson(judge_line(cost_microusd=300))}
    send_members(attempt, members)
    make_attempt(attempt.lane.plan)

    send_members(attempt, members)

    assert spend(attempt.lane.plan) == (300, 0)


def test_judge_lines_of_a_broken_archive_cost_an_unknown_sum() -> None:
    attempt = make_attempt()
    members = {
        f"{folder_of(attempt)}/judge.{part}.ndjson": ndjson(judge_line(cost_microusd=300))
        for part in (1, 2)
    }
    data = make_segment(attempt, members) + b"\0"

    for _ in range(2):
        with pytest.raises(SegmentRefusedError):
            send_segment(attempt, data)

    assert spend(attempt.lane.plan) == (0, 2)


def test_judge_lines_of_a_segment_for_another_address_are_paid() -> None:
    attempt = make_attempt()
    members = {f"{folder_of(attempt)}/judge.1.ndjson": ndjson(judge_line(cost_microusd=300))}

    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, make_segment(attempt, members, lane="ordinary-2"))

    assert spend(attempt.lane.plan) == (300, 0)


def test_judge_item_that_does_not_inflate_costs_an_unknown_sum() -> None:
    attempt = make_attempt()
    path = f"{folder_of(attempt)}/judge.1.ndjson"
    data = bytearray(make_segment(attempt, {path: ndjson(judge_line(cost_microusd=300))}))
    data[data.index(path.encode()) + len(path)] = 0xFF

    send_segment(attempt, bytes(data))

    assert spend(attempt.lane.plan) == (0, 1)


def test_late_evidence_makes_a_concluded_plan_run_again() -> None:
    attempt = make_attempt()
    plan = attempt.lane.plan
    Plan.objects.filter(pk=plan.pk).update(state="CONCLUDED", concluded_at=NOW)

    make_refusal(attempt)
    after_refusal = Plan.objects.get(pk=plan.pk)
    send_members(attempt, {f"{folder_of(attempt)}/result.json": result_bytes()})
    after_evidence = Plan.objects.get(pk=plan.pk)

    assert (after_refusal.state, after_refusal.generation) == ("CONCLUDED", plan.generation)
    assert (after_evidence.state, after_evidence.generation) == ("RUNNING", plan.generation + 1)
    assert plan.inputs_version < after_refusal.inputs_version < after_evidence.inputs_version


def test_path_of_any_length_is_kept_as_far_as_it_fits() -> None:
    attempt = make_attempt()
    path = "lane/" + "x" * 3000

    send_members(attempt, {path: b"text"}, class_="bulk")

    refusal = Refusal.objects.get()
    assert refusal.path == path[:1000]
    assert queries.refusal_bytes(refusal) == b"text"


def test_lanes_share_nothing_by_path() -> None:
    first = make_attempt()
    second = make_attempt(first.lane.plan, "ordinary-2")

    for attempt, text in ((first, b"one"), (second, b"two")):
        assert send_members(attempt, {"lane/logs/agent.1.log": text}).receipt.accepted == 1
    assert len(run_keys(second)) == 2


def test_cost_beyond_a_million_dollars_is_unknown_and_never_booked() -> None:
    attempt = make_attempt()
    lines = [judge_line(cost_microusd=2**53 - 1), judge_line(cost_microusd=10**12)]

    send_members(attempt, {f"{folder_of(attempt)}/judge.1.ndjson": ndjson(*lines)})

    spend = budget_queries.spend_of_plan(attempt.lane.plan.digest)
    assert (spend.spent_microusd, spend.unknown_calls, spend.calls) == (10**12, 1, 2)
