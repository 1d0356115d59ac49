"""Every refusal of what a segment says, by WIRE's words, and hve-core's and GAIA's beside them."""

import io
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt
from lanes.plans.operations.attempts import open_attempt
from tests.evidence.factories import (
    ndjson,
    result_bytes,
    seal_attempt,
    send_members,
    turn_line,
)
from tests.evidence.store.kinds import (
    FREE,
    UNKNOWN,
    Kind,
    call,
    folder_of,
    judged,
    named,
    segment,
    turns,
)
from tests.lanes.factories import NOW

_CALL = str(UUID(int=7))


def _whole(
    name: str, category: str, code: str, words: str, origin: str = "WIRE 3", **header: Any
) -> Kind:
    """Return a kind that refuses a segment for what its header says."""
    return Kind(
        name=name,
        origin=origin,
        category=category,
        code=code,
        words=words,
        data=lambda attempt: _with_header(segment(attempt, judged(attempt)), header),
    )


def _with_header(data: bytes, changes: dict[str, Any]) -> bytes:
    """Return a segment whose header has fields replaced, or left out where they are `...`."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "segment.json":
                document = {**json.loads(content), **changes}
                kept = {field: value for field, value in document.items() if value is not ...}
                content = json.dumps(kept).encode()
            new.writestr(name, content)
    return file.getvalue()


def _raw_header(name: str, header: bytes, words: str) -> Kind:
    def data(attempt: Attempt) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("segment.json", header)
            for path, content in judged(attempt).items():
                archive.writestr(path, content)
        return file.getvalue()

    return Kind(
        name=name,
        origin="hve-core: envelope unreadable",
        category="malformed",
        code="invalid_header",
        words=words,
        data=data,
    )


def _item(
    name: str,
    leaf: str,
    content: bytes | Callable[[], bytes],
    code: str,
    words: str,
    origin: str = "WIRE 3",
    *,
    category: str = "malformed",
    **fields: Any,
) -> Kind:
    """Return a kind that refuses one item of a run beside a judge item that is sound."""

    def data(attempt: Attempt) -> bytes:
        path = leaf if leaf.startswith(("lane/", "runs/")) else f"{folder_of(attempt)}/{leaf}"
        members = {path: content if isinstance(content, bytes) else content()}
        own = {} if "judge." in leaf else judged(attempt)
        is_bulk = any(word in leaf for word in ("transcript", "files/", "logs/"))
        if not is_bulk:
            return segment(attempt, {**members, **own}, class_="record")
        send_members(attempt, own)
        return segment(attempt, members, class_="bulk")

    return Kind(
        name=name,
        origin=origin,
        category=category,
        code=code,
        words=words,
        data=data,
        path=leaf.rpartition("/")[2],
        **fields,
    )


def _after(
    prepare: Callable[[Attempt], None], members: Callable[[Attempt], dict[str, bytes]]
) -> Any:
    def data(attempt: Attempt) -> bytes:
        prepare(attempt)
        return segment(attempt, members(attempt))

    return data


def _judge_alone(attempt: Attempt) -> dict[str, bytes]:
    return judged(attempt, call(call_id=_CALL))


def _result_alone(attempt: Attempt) -> dict[str, bytes]:
    return {f"{folder_of(attempt)}/result.json": result_bytes("passed")}


def _failed_before(attempt: Attempt) -> None:
    send_members(attempt, {f"{folder_of(attempt)}/result.json": result_bytes("failed")})


def _told_before(attempt: Attempt) -> None:
    send_members(attempt, judged(attempt, call(call_id=_CALL)))


def _told_otherwise(attempt: Attempt) -> dict[str, bytes]:
    line = call(call_id=_CALL, value=0.0)
    return {f"{folder_of(attempt)}/judge.10.ndjson": ndjson(line)}


def _supersede(attempt: Attempt) -> None:
    open_attempt(attempt.lane.plan, attempt.lane.name, at=NOW)


def _of_another_lane(attempt: Attempt) -> dict[str, bytes]:
    document = plans_queries.plan_document(attempt.lane.plan)
    other = next(lane for lane in document.lanes if lane.name != attempt.lane.name)
    folder = run_folder(other.run_keys[0])
    return {f"{folder}/judge.9.ndjson": ndjson(call())}


def _unplanned(scenario: str | None = None, arm: str | None = None, epoch: int = 1) -> Any:
    def data(attempt: Attempt) -> bytes:
        key = plans_queries.plan_document(attempt.lane.plan).lane(attempt.lane.name).run_keys[0]
        folder = run_folder(RunKey(scenario or key.scenario, arm or key.arm, epoch))
        return segment(attempt, {f"{folder}/judge.9.ndjson": ndjson(call())})

    return data


def _plain(
    name: str, origin: str, category: str, code: str, words: str, data: Any, **fields: Any
) -> Kind:
    return Kind(
        **{
            "name": name,
            "origin": origin,
            "category": category,
            "code": code,
            "words": words,
            "data": data,
            "path": "judge.9.ndjson",
            **fields,
        }
    )


def _made(minutes: int) -> Any:
    def data(attempt: Attempt) -> bytes:
        # Beside the opening of the attempt, or what the server's clock shows when this arrives.
        at = attempt.opened_at if minutes < 0 else max(attempt.opened_at, timezone.now())
        return segment(attempt, judged(attempt), created_at=at + timedelta(minutes=minutes))

    return data


_ADDRESSES = [
    _whole("other project", "unexpected", "other_project", "/project was", project="acme/other"),
    _whole(
        "other plan",
        "unexpected",
        "other_plan",
        "/plan was",
        "hve-core: mismatched planDigest; workflowRunId differs; wrong manifest digests",
        plan="sha256:" + "0" * 64,
    ),
    _whole(
        "other lane",
        "unexpected",
        "other_lane",
        "/lane was",
        "hve-core: summary identity does not match its envelope; GAIA: nothing ties an artifact to a lane",
        lane="another",
    ),
    _whole(
        "other attempt",
        "unexpected",
        "other_attempt",
        "/attempt was",
        "hve-core: workflowRunAttempt differs; gap 6: attempts mixed unnoticed",
        attempt="att_somebodyelse",
    ),
    _whole("other seq", "unexpected", "other_seq", "/seq was 77", seq=77),
    _whole(
        "unknown schema of the segment",
        "incompatible",
        "unknown_schema",
        "this server reads evalhub.segment/1",
        "hve-core: unsupported envelope schema",
        schema="evalhub.segment/2",
    ),
    _whole(
        "unknown schema of the records",
        "incompatible",
        "unknown_schema",
        "this server reads evalhub.records/1",
        "hve-core: summary unsupported schema",
        records="evalhub.records/9",
    ),
    _whole(
        "header without a field",
        "malformed",
        "invalid_header",
        "/lane was absent",
        "hve-core: omits required field; summary omits producer",
        lane=...,
    ),
    _whole(
        "header with a field of nobody's",
        "malformed",
        "invalid_header",
        "/rawText was",
        "hve-core: unknown key anywhere",
        rawText="x",
    ),
    _whole(
        "header with an empty name of its attempt",
        "malformed",
        "invalid_header",
        "/attempt was",
        "hve-core: empty driverRunId",
        attempt="",
    ),
    _whole("unknown class", "malformed", "invalid_header", "/class was", **{"class": "other"}),
    _whole("seq that is text", "malformed", "invalid_header", "/seq was", seq="1"),
    _whole(
        "time that is not in UTC",
        "malformed",
        "invalid_header",
        "ends in Z",
        created_at="2026-11-29T12:00:00+01:00",
    ),
    _raw_header("header that is no JSON", b"{", "not JSON"),
    _raw_header("header with a byte-order mark", b"\xef\xbb\xbf{}", "not JSON"),
    _raw_header("header in another encoding", '{"schema": 1}'.encode("utf-16"), "not JSON"),
    _raw_header("header nested without end", b"[" * 60_000, "not JSON"),
    _raw_header("header that is a list", b"[]", "the document"),
    _plain(
        *("other commit", "hve-core: headSha differs", "stale", "other_commit"),
        *("The segment is of commit", lambda a: segment(a, judged(a), tested_sha="d" * 40)),
    ),
    _plain(
        *("made 6 minutes before its attempt", "DESIGN 6", "stale", "made_before_attempt"),
        *("more than 5 minutes before its attempt was opened", _made(-6)),
    ),
    _plain(
        *("made 6 minutes from now", "WIRE 3", "stale", "made_in_future"),
        *("set the clock of the lane's machine", _made(6)),
    ),
    _plain(
        *("after the seal", "DESIGN 6", "stale", "attempt_sealed", "was sealed before"),
        _after(seal_attempt, _judge_alone),
    ),
    _plain(
        *("after a newer attempt was opened", "DESIGN 6", "stale", "attempt_superseded"),
        *("by a newer attempt", _after(_supersede, _judge_alone)),
    ),
]
_POPULATION = [
    _plain(
        *("scenario that is not planned", "hve-core: unexpected-stimulus; GAIA: orphan category"),
        *(
            "unexpected",
            "not_planned",
            "The plan has no run key",
            _unplanned("nobody-planned-this"),
        ),
    ),
    _plain(
        *(
            "epoch beyond the plan",
            "hve-core: trial-population-mismatch; configured population differs",
        ),
        *("unexpected", "not_planned", "The plan has no run key", _unplanned(epoch=99)),
    ),
    _plain(
        *("arm that is not planned", "hve-core: unexpected selectedModel; exactly two envelopes"),
        *("unexpected", "not_planned", "The plan has no run key", _unplanned(arm="baseline:other")),
    ),
    _plain(
        *("run key of another lane", "hve-core: producer set does not match the canonical plan"),
        *("unexpected", "other_lane", "belongs to lane"),
        lambda attempt: segment(attempt, _of_another_lane(attempt)),
    ),
    _plain(
        *("record in a segment of bulk", "hve-core: wrong kind", "unexpected", "other_class"),
        *(
            "does not belong into a segment of class bulk",
            lambda a: segment(a, judged(a), class_="bulk"),
        ),
    ),
    _plain(
        *("two results for one path", "hve-core: duplicate-trial; GAIA gap 1: last one wins"),
        *("duplicate", "path_taken", "another item at this path"),
        _after(_failed_before, _result_alone),
        path="result.json",
        money=FREE,
    ),
    _plain(
        *("judge call told otherwise", "hve-core: invalid-native-identity; mean mismatch"),
        *("duplicate", "call_contradicted", "was told of before as 1.0"),
        _after(_told_before, _told_otherwise),
        path="judge.10.ndjson",
    ),
]


def _result(name: str, words: str, origin: str = "WIRE 3", **fields: Any) -> Kind:
    return _item(name, "result.json", result_bytes(**fields), "invalid_record", words, origin)


_NAN, _INFINITE = float("nan"), float("inf")
_RECORDS = [
    _item("result that is no JSON", "result.json", b"{", "invalid_record", "not JSON"),
    _item("result that is cut short", "result.json", result_bytes()[:-9], "invalid_record", "not JSON"),
    _item("result in invalid UTF-8", "result.json", result_bytes().replace(b"passed", b"pass\xff"), "invalid_record", "not JSON"),
    _item("result with an overlong encoding", "result.json", result_bytes().replace(b"passed", b"\xc0\xaf"), "invalid_record", "not JSON"),
    _item("result with a byte-order mark", "result.json", b"\xef\xbb\xbf" + result_bytes(), "invalid_record", "not JSON"),
    _item("result that is a list", "result.json", b"[]", "invalid_record", "the document"),
    _item("result and more after it", "result.json", result_bytes() + b"{}", "invalid_record", "not JSON"),
    _result("outcome of nobody's", "/outcome", "GAIA: unknown status", outcome="won"),
    _result("NaN in a score", "/scores", "GAIA gap 1: null counts as 0", scores={"latency_s": _NAN}),
    _result("Infinity in a score", "/scores", scores={"latency_s": _INFINITE}),
    _result("-Infinity in a score", "/scores", scores={"latency_s": -_INFINITE}),
    _result("score beyond what sums can hold", "to 1e15", scores={"latency_s": 1e300}),
    _result("score that is text", "/scores", "hve-core: invalid-trial-score", scores={"latency_s": "12"}),
    _result("duration below zero", "/duration_ms", duration_ms=-1),
    _result("duration that is no whole number", "/duration_ms", duration_ms=1.5),
    _result("time without a zone", "/started_at", started_at="2026-11-29T12:00:00"),
    _result("field of nobody's", "/rawText", "hve-core: unknown key anywhere", rawText="x"),
    _item("field of a result given twice", "result.json", result_bytes().replace(b"{", b'{"outcome": "failed", ', 1), "invalid_record", "/outcome was given twice", "GAIA gap 1: last one wins"),
    _item("score given twice", "result.json", result_bytes().replace(b'{"latency_s"', b'{"latency_s": 1, "latency_s"'), "invalid_record", "/scores/latency_s was given twice"),
    _item("field of a judge line given twice", "judge.9.ndjson", ndjson(call()).replace(b"{", b'{"value": 0.0, ', 1), "invalid_line", "/value was given twice"),
    _item("field of a judge line given twice, once with an escape", "judge.9.ndjson", ndjson(call()).replace(b"{", rb'{"\u0076alue": 0.0, ', 1), "invalid_line", "/value was given twice"),
    _item("field of the lane given twice", "lane/preflight.json", b'{"guards": [], "guards": []}', "invalid_record", "/guards was given twice"),
    _result("more parts than anybody reads", "/transcript_parts", transcript_parts=10_001),
    _item("failure without its cause", "failure.json", b'{"category": "x", "by": "rules"}', "invalid_record", "/root_cause was absent"),
    _item("preflight without its guards", "lane/preflight.json", b"{}", "invalid_record", "/guards was absent"),
    _item("tier of nobody's", "lane/environment.json", b'{"tier": "imaginary"}', "invalid_record", "/tier", "hve-core: tier differs"),
    _item("redactions below zero", "lane/redactions.json", b'{"counts": {"key": -1}}', "invalid_record", "/counts/key"),
    _item("fault that is no object", "lane/faults.1.ndjson", b"[]\n", "invalid_line", "Line 1"),
    _item("probe that is cut short", "lane/probes.1.ndjson", b"{", "truncated", "is cut short"),
    _item("transcript without a line", "transcript.1.ndjson", b"", "empty", "no line", "GAIA: no scorecard produced"),
    _item("truncated line", "transcript.1.ndjson", turns({}, {})[:-9], "truncated", "Line 2, the last, is cut short", "hve-core: malformed-record"),
    _item("empty line", "transcript.1.ndjson", b"\n" + turns({}), "invalid_line", "Line 1"),
    _item("line in invalid UTF-8", "transcript.1.ndjson", turns({}) + b'{"turn": 2, "text": "\xff"}\n', "invalid_line", "Line 2", "hve-core: malformed-record"),
    _item("line of an unknown kind", "transcript.1.ndjson", turns({"kind": "run-summary"}), "invalid_line", "/kind", "hve-core: unknown-record-type"),
    _item("turn that is no number", "transcript.1.ndjson", turns({"turn": _NAN}), "invalid_line", "Line 1"),
    _item("transcript part beyond its size", "transcript.1.ndjson", ndjson(turn_line(1, " ".join(map(str, range(300_000))))), "too_large", "at most 1179648"),
    _item("body that is not what its name says", "files/body-" + "0" * 64, b"text", "wrong_digest", "has the digest sha256:", "hve-core: digest invalid"),
    _item("judge item without a line", "judge.9.ndjson", b"", "empty", "no line", money=FREE),
    _item("NaN as a value", "judge.9.ndjson", ndjson(call(value=_NAN)), "invalid_line", "/value", "hve-core: invalid-grader-result"),
    _item("no value and no reason", "judge.9.ndjson", ndjson(call(value=None, unscored_reason=None)), "invalid_line", "a value, or null", "hve-core: invalid-grader-result"),
    _item("call without an identity", "judge.9.ndjson", ndjson(call(call_id="first")), "invalid_line", "/call_id", "hve-core: invalid-native-identity", money=UNKNOWN),
    _item("stage of nobody's", "judge.9.ndjson", ndjson(call(stage="guess")), "invalid_line", "/stage", "hve-core: grader-population-mismatch", money=UNKNOWN),
    _item("repeat that is not counted from 1", "judge.9.ndjson", ndjson(call(repeat=0)), "invalid_line", "/repeat", "hve-core: invalid-trial-identity"),
    _item("one call twice in a part", "judge.9.ndjson", ndjson(*[call(call_id=_CALL)] * 2), "repeated_call", "Two lines have one call_id", "hve-core: duplicate-trial"),
    _item("judge line that is cut short", "judge.9.ndjson", ndjson(call())[:-30], "truncated", "is cut short", money=UNKNOWN),
]  # fmt: skip
_NO_RUN, _NO_LANE = "is no evidence of a run", "is no evidence of a lane"
_PATHS = {
    "epoch that is not counted from 1": ("runs/order-lookup/candidate/0/failure.json", _NO_RUN),
    "epoch with a zero before it": ("runs/order-lookup/candidate/01/failure.json", _NO_RUN),
    "part that is not counted from 1": ("runs/order-lookup/candidate/1/judge.0.ndjson", _NO_RUN),
    "record of nobody's": ("runs/order-lookup/candidate/1/surprise.json", _NO_RUN),
    "encoding in lower case": ("runs/order%2dlookup/candidate/1/failure.json", "percent-encoded"),
    "encoding of what needs none": ("runs/a%61/candidate/1/failure.json", "in its one encoding"),
    "character to be encoded": ("runs/a.b/candidate/1/failure.json", "should be percent-encoded"),
    "encoding that is no UTF-8": ("runs/%FF/candidate/1/failure.json", "percent-encoded UTF-8"),
    "record of a lane of nobody's": ("lane/unheard-of.json", _NO_LANE),
    "folder of nobody's": ("elsewhere/failure.json", "begins with neither runs/ nor lane/"),
}


def _at_path(name: str, path: str, words: str) -> Kind:
    return Kind(
        name=name,
        origin="WIRE 3; hve-core: invalid-trial-identity, unknown-record-type",
        category="malformed",
        code="invalid_path",
        words=words,
        data=lambda attempt: segment(attempt, {path: b"{}", **judged(attempt)}, class_="record"),
        path=path,
    )


WIRE_KINDS = named(
    [*_ADDRESSES, *_POPULATION, *_RECORDS, *(_at_path(name, *row) for name, row in _PATHS.items())]
)
