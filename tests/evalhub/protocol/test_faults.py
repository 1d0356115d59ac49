"""Faults: where, what it was, what was expected."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.faults import DocumentError, Fault, parse_document
from evalhub.protocol.messages import Heartbeat
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.records import JudgeLine, Result, Turn
from evalhub.protocol.segments import SegmentHeader
from evalhub.protocol.suite import Suite
from tests.evalhub.protocol.documents import Json, plan_json

HEARTBEAT: Json = {"phase": "running", "done": 1, "total": 3}


def faults_of(model: Any, document: object) -> list[Fault]:
    with pytest.raises(DocumentError) as caught:
        parse_document(model, document if isinstance(document, bytes) else json.dumps(document))
    return caught.value.faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"done": "1"}, Fault("/done", '"1"', "a valid integer")),
        ({"done": -1}, Fault("/done", "-1", "greater than or equal to 0")),
        (
            {"done": 2**53},
            Fault("/done", "9007199254740992", "less than or equal to 9007199254740991"),
        ),
        ({"novel": True}, Fault("/novel", "true", "no field of this name")),
        (
            {"phase": "a\nb"},
            Fault("/phase", '"a\\nb"', "text on one line without control characters"),
        ),
    ],
)
def test_fault_says_where_what_and_what_instead(change: Json, fault: Fault) -> None:
    assert faults_of(Heartbeat, {**HEARTBEAT, **change}) == [fault]


@pytest.mark.parametrize("call_id", [5, "five"])
def test_identifier_is_asked_for_by_its_name(call_id: object) -> None:
    (fault,) = [
        fault for fault in faults_of(JudgeLine, {"call_id": call_id}) if fault.pointer == "/call_id"
    ]

    assert fault.expected == "a UUID"


def test_absent_field_is_named() -> None:
    assert faults_of(Heartbeat, {"phase": "x", "done": 1}) == [
        Fault("/total", "absent", "this field")
    ]


def test_every_fault_is_found_not_only_the_first() -> None:
    found = faults_of(Heartbeat, {"phase": 1, "done": None})

    assert [fault.pointer for fault in found] == ["/phase", "/done", "/total"]


def test_sentence_names_five_faults_and_counts_the_others() -> None:
    one, two = Fault("/a", "1", "2"), Fault("/b", "1", "2")

    assert str(DocumentError([one, two])) == "/a was 1; expected 2; /b was 1; expected 2."
    assert str(DocumentError([Fault("", "1", "2")])) == "the document was 1; expected 2."
    many = DocumentError([Fault(f"/{i}", "1", "2") for i in range(7)])
    assert str(many).endswith("/4 was 1; expected 2 (2 more).")


def test_sentence_names_a_misspelt_field_before_the_field_that_is_absent_for_it() -> None:
    misspelt = {name if name != "total" else "totla": v for name, v in HEARTBEAT.items()}

    with pytest.raises(DocumentError) as caught:
        parse_document(Heartbeat, json.dumps(misspelt))

    assert str(caught.value) == (
        "/totla was 3; expected no field of this name; /total was absent; expected this field."
    )


def test_pointer_leads_through_lists_and_escapes_names() -> None:
    document = plan_json(conditions={"a~/b": {}})

    pointers = [fault.pointer for fault in faults_of(Plan, document)]

    assert pointers[0].startswith("/conditions/a~0~1b")


def test_long_values_are_cut() -> None:
    (fault,) = faults_of(Heartbeat, {**HEARTBEAT, "phase": "x" * 5000})

    assert len(fault.got) < 200
    assert fault.got.endswith("…")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b"nul", b"[" * 100_000, b'{"phase": "\\ud800"}']
)
def test_what_is_not_json_says_so(data: bytes) -> None:
    (fault,) = faults_of(Heartbeat, data)

    assert fault.pointer == ""
    assert fault.got.startswith("not JSON: ")
    assert fault.expected == "one whole JSON document"


@given(st.sampled_from([Plan, Policy, Suite, Result, Turn, SegmentHeader]), st.binary(max_size=80))
def test_noise_is_a_document_error(model: Any, data: bytes) -> None:
    with pytest.raises(DocumentError):
        parse_document(model, data)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(st.data())
def test_bent_plan_is_read_or_is_a_document_error(data: st.DataObject) -> None:
    document = plan_json()
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(_LEAVES | st.lists(_LEAVES) | st.dictionaries(st.text(), _LEAVES))

    try:
        parse_document(Plan, json.dumps(document))
    except DocumentError as error:
        assert error.faults  # noqa: PT017 - a bent plan may be a plan
