"""What looks odd and is taken on purpose: what is strict is our fields, and theirs are their business."""

import io
import json
import zipfile

import pytest

from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import run_folder
from evalhub.protocol.records import Turn
from evidence.store import queries
from evidence.store.models import Item, Refusal
from tests.evidence.factories import (
    Json,
    first_run_key,
    judge_line,
    ndjson,
    result_bytes,
    send_members,
    turn_line,
)
from tests.evidence.store.kinds import turns
from tests.lanes.factories import make_attempt

pytestmark = pytest.mark.django_db


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def arguments(text: str) -> bytes:
    """Return a transcript in which a tool was called with a text that is or is not JSON."""
    return turns({"kind": "tool_call", "tool": {"name": "t", "call_id": None, "arguments": text}})


def escaped(line: Json) -> bytes:
    """Return a line as Python writes it by default: what is not ASCII as an escape."""
    return json.dumps(line).encode() + b"\n"


DEEP = "[" * 100_000
ODD = {
    "CRLF in a transcript": ("transcript.1.ndjson", turns({}, {}).replace(b"\n", b"\r\n")),
    "CRLF in judge lines": ("judge.1.ndjson", ndjson(judge_line()).replace(b"\n", b"\r\n")),
    "CRLF in a result": ("result.json", result_bytes().replace(b", ", b",\r\n") + b"\r\n"),
    "CRLF in faults": ("lane/faults.1.ndjson", b"{}\r\n{}\r\n"),
    "last line without a line break": ("transcript.1.ndjson", turns({}, {})[:-1]),
    "byte-order mark in a log": ("lane/logs/agent.1.log", b"\xef\xbb\xbfstarted\r\n"),
    "byte-order mark of UTF-16 in a log": ("lane/logs/agent.1.log", "started".encode("utf-16")),
    "log that is no text": ("lane/logs/agent.1.log", bytes(range(256)) * 4),
    "log without a line": ("lane/logs/agent.1.log", b""),
    "attachment without a byte": ("files/empty", b""),
    "attachment that is an archive": ("files/inner%2Ezip", zipped(**{"../../up": b"x"})),
    "attachment that is a bomb": ("files/bomb%2Egz", zipped(bomb=b"\0" * 10**6)),
    "NaN in arguments": ("transcript.1.ndjson", arguments('{"a": NaN, "b": -Infinity}')),
    "huge number in arguments": ("transcript.1.ndjson", arguments("1" + "0" * 20_000)),
    "duplicate keys in arguments": ("transcript.1.ndjson", arguments('{"a": 1, "a": 2}')),
    "lone surrogate in arguments": ("transcript.1.ndjson", arguments('"\\ud800"')),
    "deep nesting in arguments": ("transcript.1.ndjson", arguments(DEEP)),
    "arguments that are no JSON": ("transcript.1.ndjson", arguments("{'a': None")),
    "lone surrogate in a text": ("transcript.1.ndjson", escaped({**turn_line(1), "text": "a\ud800b\udfff\U0001f600"})),
    "NUL and controls in a text": ("transcript.1.ndjson", turns({"text": "\0\x1b[2J\u202e\u2028"})),
    "NaN and duplicates below extra": (
        "transcript.1.ndjson",
        b'{"turn": 1, "role": "user", "kind": "note", "extra": {"a": NaN, "a": 1e999, "b": %s}}\n'
        % (b"9" * 4000),
    ),
    "duplicates below extra of a result": (
        "result.json",
        result_bytes(extra={}).replace(b'"extra": {}', b'"extra": {"a": 1, "a": [{"b": 1, "b": 2}]}'),
    ),
    "lone surrogate in a rationale": ("judge.1.ndjson", escaped(judge_line(rationale="\ud83d"))),
    "lone surrogate in an error": (
        "result.json",
        result_bytes(error={"origin": "agent", "type": "E", "message": "\udcff"}),
    ),
    "turns out of order, and again": ("transcript.1.ndjson", turns({"turn": 2}, {"turn": 1}, {"turn": 2})),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_evidence_is_accepted_as_it_is(name: str) -> None:
    leaf, data = ODD[name]
    attempt = make_attempt()
    path = leaf if leaf.startswith("lane/") else f"{run_folder(first_run_key(attempt))}/{leaf}"

    receipt = send_members(attempt, {path: data}).receipt

    assert [refused.detail for refused in receipt.refused] == []
    assert queries.item_bytes(Item.objects.get()) == data
    assert not Refusal.objects.exists()


def test_every_surrogate_of_a_text_but_pairs_is_read_as_its_replacement() -> None:
    line = json.dumps({**turn_line(1), "text": "\\ud800 \ud800\udbff \U0001f600 \udc00."})

    assert parse_document(Turn, line.encode()).text == "\\ud800 \ufffd\ufffd \U0001f600 \ufffd."
