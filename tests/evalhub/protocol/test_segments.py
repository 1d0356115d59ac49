"""Headers, receipts and the digest of a seal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.segments import (
    Category,
    Receipt,
    Refused,
    SegmentDigest,
    SegmentHeader,
    seal_digest,
)
from tests.evalhub.protocol.documents import DIGEST, NOON, Json

HEADER: Json = {
    "schema": "evalhub.segment/1",
    "records": "evalhub.records/1",
    "project": "acme/agent",
    "plan": DIGEST,
    "lane": "ordinary-1",
    "attempt": "att_0123456789",
    "seq": 1,
    "class": "record",
    "tested_sha": "b" * 40,
    "created_at": "2026-11-29T12:00:00Z",
}


def test_header_is_written_as_it_is_read() -> None:
    header = parse_document(SegmentHeader, json.dumps(HEADER))

    assert json.loads(header.model_dump_json(by_alias=True)) == HEADER


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "evalhub.segment/2"),
        ("records", "evalhub.records/2"),
        ("project", "agent"),
        ("project", "acme/../x/y"),
        ("plan", "sha256:ABC"),
        ("lane", "Ordinary 1"),
        ("attempt", "1"),
        ("attempt", "att_../../../up"),
        ("seq", 0),
        ("seq", True),
        ("seq", "1"),
        ("class", "other"),
        ("tested_sha", "main"),
        ("created_at", "2026-11-29T12:00:00"),
        ("created_at", "2026-11-29T12:00:00+01:00"),
        ("created_at", 1_796_000_000),
        ("novel", 1),
    ],
)
def test_header_that_is_not_of_the_wire_names_the_field(field: str, value: object) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document(SegmentHeader, json.dumps({**HEADER, field: value}))

    assert [fault.pointer for fault in caught.value.faults] == [f"/{field}"]


def test_receipt_survives_its_column() -> None:
    receipt = Receipt(
        seq=1,
        sha256=DIGEST,
        accepted=3,
        refused=[Refused(path="lane/x", category=Category.STALE, code="late", detail="Late.")],
        received_at=NOON,
    )

    dumped = receipt.model_dump(mode="json")

    assert Receipt.model_validate_json(json.dumps(dumped)) == receipt
    assert dumped["received_at"] == "2026-11-29T12:00:00Z"
    assert dumped["refused"][0]["category"] == "stale"


def test_seal_digest_is_over_the_canonical_array() -> None:
    segments = [SegmentDigest(2, "sha256:b"), SegmentDigest(1, "sha256:a")]

    assert seal_digest(segments) == bytes_digest(
        b'[{"seq":1,"sha256":"sha256:a"},{"seq":2,"sha256":"sha256:b"}]'
    )
    assert seal_digest([]) == bytes_digest(b"[]")


@given(st.permutations([SegmentDigest(seq, f"sha256:{seq}") for seq in range(1, 12)]))
def test_order_of_arrival_does_not_change_the_seal(segments: list[SegmentDigest]) -> None:
    assert seal_digest(segments) == seal_digest(sorted(segments))
