"""Whatever the bytes are, a segment is sorted or refused: nothing else comes out."""

import io
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.archive import write_archive
from evalhub.protocol.paths import ItemKind, ItemPath
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import SegmentHeader
from evidence.store.operations.contents import UnfitError, checked_content, judge_costs
from evidence.store.operations.reading import (
    Expected,
    SegmentContent,
    SegmentUnfitError,
    sorted_segment,
)
from tests.evidence.factories import judge_line, ndjson, result_bytes, transcript_bytes

KEY = RunKey("order-lookup", "candidate", 1)
FOLDER = "runs/order-lookup/candidate/1"
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
EXPECTED = Expected(
    project="acme/agent",
    plan="sha256:" + "0" * 64,
    lane="ordinary-1",
    attempt="att_0123456789",
    tested_sha=None,
    opened_at=NOON,
    received_at=NOON,
    clock_shown_at=NOON,
    owners={KEY: "ordinary-1"},
)
JUDGE = ndjson(judge_line(1.0, call_id=str(UUID(int=1)), cost_microusd=300))
PARSED = [kind for kind in ItemKind if kind not in (ItemKind.FILE, ItemKind.LOG)]


def record_segment() -> bytes:
    header = SegmentHeader(
        project=EXPECTED.project,
        plan=EXPECTED.plan,
        lane=EXPECTED.lane,
        attempt=EXPECTED.attempt,
        seq=1,
        class_="record",
        tested_sha=None,
        created_at=NOON,
    )
    file = io.BytesIO()
    members = [(f"{FOLDER}/result.json", result_bytes()), (f"{FOLDER}/judge.1.ndjson", JUDGE)]
    write_archive(file, header, members)
    return file.getvalue()


SEGMENT = record_segment()


def sorted_bytes(data: bytes) -> SegmentContent:
    return sorted_segment(io.BytesIO(data), expected=EXPECTED, seq=1)


def test_sound_segment_is_accepted() -> None:
    content = sorted_bytes(SEGMENT)

    assert [item.path for item in content.accepted] == [
        f"{FOLDER}/result.json",
        f"{FOLDER}/judge.1.ndjson",
    ]
    assert [call.cost_microusd for call in content.money.calls] == [300]


@given(
    st.lists(
        st.tuples(st.integers(0, len(SEGMENT) - 1), st.integers(1, 255)), min_size=1, max_size=5
    )
)
def test_changed_bytes_never_count_as_what_they_were_not(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SEGMENT)
    for offset, mask in changes:
        data[offset] ^= mask

    try:
        content = sorted_bytes(bytes(data))
    except SegmentUnfitError:
        return

    sound = {item.path: item.sha256 for item in sorted_bytes(SEGMENT).accepted}
    assert {item.path: item.sha256 for item in content.accepted}.items() <= sound.items()
    assert len(content.accepted) + len(content.refused) == len(sound)


@given(st.sampled_from(PARSED), st.binary(max_size=300))
def test_noise_in_an_item_is_refused_or_read(kind: ItemKind, data: bytes) -> None:
    try:
        content = checked_content(ItemPath(kind, KEY, part=1), data)
    except UnfitError as error:
        assert error.unfit.category == "malformed"  # noqa: PT017 - it may be read as well
        return
    # The two whose lines are any objects, and whose part may be empty.
    assert kind in {ItemKind.FAULTS, ItemKind.PROBES}
    assert content.lines == len(data.splitlines())


@given(st.integers(0, 400), st.binary(max_size=20), st.integers(0, 40))
def test_bent_transcript_is_refused_or_read(offset: int, inserted: bytes, cut: int) -> None:
    whole = transcript_bytes(5)
    data = whole[:offset] + inserted + whole[offset + cut :]

    try:
        content = checked_content(ItemPath(ItemKind.TRANSCRIPT, KEY, part=1), data)
    except UnfitError as error:
        assert error.unfit.detail  # noqa: PT017 - it may be read as well
        return
    assert content.lines == data.rstrip(b"\n").count(b"\n") + 1


@given(st.binary(max_size=300))
def test_money_of_noise_is_unknown_line_by_line(data: bytes) -> None:
    costs = judge_costs(data)

    assert costs.calls == []
    assert costs.unreadable_lines == len(data.split(b"\n")) - data.endswith(b"\n") - (not data)


@pytest.mark.parametrize(
    "line", [b"{}", b'{"call_id": 1}', b'{"call_id": "x", "rubric": "r", "stage": "check"}', b"[]"]
)
def test_line_without_a_call_is_unreadable(line: bytes) -> None:
    assert judge_costs(line + b"\n").unreadable_lines == 1


def test_money_is_read_from_a_line_whose_other_fields_are_wrong() -> None:
    costs = judge_costs(JUDGE.replace(b'"value": 1.0', b'"value": NaN, "novel": 1'))

    assert [(call.cost_microusd, call.rubric) for call in costs.calls] == [(300, "resolved")]
