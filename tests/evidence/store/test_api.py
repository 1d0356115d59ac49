"""The endpoints: status codes, one shape for every refusal, nothing half stored."""

import base64
import hashlib
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from evalhub.protocol.segments import seal_digest
from evidence.store import queries
from evidence.store.models import Segment
from evidence.store.storage import object_store
from lanes.plans.models import Attempt
from tests.evidence.factories import content_digest, make_run, make_segment, seal_request
from tests.lanes.factories import make_attempt, make_lane_token, make_project, make_token

pytestmark = pytest.mark.django_db

PROBLEM_KEYS = {"type", "title", "status", "code", "detail", "fix", "errors", "request_id"}
LOG = {"lane/logs/agent.1.log": b"started\n"}


@pytest.fixture
def attempt() -> Attempt:
    # Opened now: the endpoints read the clock, and tokens expire.
    return make_attempt()


def put(attempt: Attempt, data: bytes, *, seq: int = 1, token: str = "", **headers: Any) -> Any:
    """Send a segment as a client does; `headers` replace single headers, None leaves one out."""
    sent = {
        "Authorization": f"Bearer {token or make_lane_token(attempt)}",
        "Content-Digest": content_digest(data),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return Client().put(
        reverse("api-segment", args=[attempt.key, seq]),
        data,
        content_type="application/zip",
        headers={name: value for name, value in sent.items() if value is not None},
    )


def assert_problem(response: Any, status: int, code: str) -> str:
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert set(body) == PROBLEM_KEYS
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert body["detail"].endswith(".")
    detail: str = body["detail"]
    return detail


def test_segment_is_answered_with_its_receipt_and_then_the_same(attempt: Attempt) -> None:
    data = make_segment(attempt, LOG)

    first, again = put(attempt, data), put(attempt, data)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["sha256"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert first.json()["accepted"] == 1


def test_other_bytes_are_a_conflict(attempt: Attempt) -> None:
    put(attempt, make_segment(attempt, LOG))

    response = put(attempt, make_segment(attempt, {"lane/logs/agent.1.log": b"other"}))

    assert_problem(response, 409, "segment-conflict")


def test_segment_beyond_the_limit_is_refused_unread(settings: Settings, attempt: Attempt) -> None:
    data = make_segment(attempt, LOG)
    settings.SEGMENT_BYTES = len(data) - 1

    detail = assert_problem(put(attempt, data), 413, "segment-too-large")

    assert str(len(data)) in detail
    assert list(object_store().keys()) == []


def test_broken_archive_is_refused_in_a_sentence(attempt: Attempt) -> None:
    assert_problem(put(attempt, b"no archive at all, just text"), 422, "segment-refused")


def test_empty_body_is_refused_in_a_sentence(attempt: Attempt) -> None:
    response = Client().put(
        reverse("api-segment", args=[attempt.key, 1]),
        b"",
        headers={
            "Authorization": f"Bearer {make_lane_token(attempt)}",
            "Content-Digest": content_digest(b""),
        },
        CONTENT_LENGTH="0",
    )

    assert_problem(response, 422, "segment-refused")


@pytest.mark.parametrize(
    ("digest", "status", "code"),
    [
        (None, 400, "content-digest"),
        ("garbage", 400, "content-digest"),
        ("md5=:AAAA:", 400, "content-digest"),
        (content_digest(b"something else"), 422, "digest-mismatch"),
    ],
)
def test_digest_is_asked_for_and_compared(
    attempt: Attempt, digest: str | None, status: int, code: str
) -> None:
    response = put(attempt, make_segment(attempt, LOG), Content_Digest=digest)

    assert_problem(response, status, code)
    assert not Segment.objects.exists()


def test_digest_may_stand_beside_others(attempt: Attempt) -> None:
    data = make_segment(attempt, LOG)
    other = base64.b64encode(hashlib.sha512(data).digest()).decode()

    response = put(attempt, data, Content_Digest=f"sha-512=:{other}:, {content_digest(data)}")

    assert response.status_code == 201


@pytest.mark.parametrize("length", ["", "many", "-5", "1.5"])
def test_length_is_required(attempt: Attempt, length: str) -> None:
    response = Client().put(
        reverse("api-segment", args=[attempt.key, 1]),
        b"",
        headers={"Authorization": f"Bearer {make_lane_token(attempt)}"},
        CONTENT_LENGTH=length,
    )

    assert_problem(response, 411, "length-required")


def test_chunked_upload_is_asked_for_its_length(attempt: Attempt) -> None:
    response = put(attempt, make_segment(attempt, LOG), Transfer_Encoding="chunked")

    assert_problem(response, 411, "length-required")


def test_token_of_another_attempt_is_forbidden(attempt: Attempt) -> None:
    other = make_lane_token(make_attempt(attempt.lane.plan, "ordinary-2"))

    assert_problem(put(attempt, make_segment(attempt, LOG), token=other), 403, "forbidden")


def test_token_of_the_project_does_not_write_evidence(attempt: Attempt) -> None:
    token = make_token(attempt.lane.plan.project).secret

    assert_problem(put(attempt, make_segment(attempt, LOG), token=token), 403, "forbidden")


def test_stranger_is_asked_for_a_token(attempt: Attempt) -> None:
    data = make_segment(attempt, LOG)

    assert_problem(put(attempt, data, Authorization=None), 401, "not-authenticated")
    assert_problem(put(attempt, data, token="nonsense"), 401, "not-authenticated")


def test_attempt_that_is_not_there_is_not_told_apart_from_anothers() -> None:
    token = make_token(make_project(), attempt="att_ofsomebodyelse").secret

    response = Client().put(
        reverse("api-segment", args=["att_0123456789", 1]),
        b"",
        headers={"Authorization": f"Bearer {token}"},
    )

    assert_problem(response, 403, "forbidden")


def post_seal(attempt: Attempt, body: str, token: str = "") -> Any:
    return Client().post(
        reverse("api-seal", args=[attempt.key]),
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token or make_lane_token(attempt)}"},
    )


def test_seal_answers_what_is_missing(attempt: Attempt) -> None:
    make_run(attempt)
    request = seal_request(attempt, final=True)

    response = post_seal(attempt, request.model_dump_json())

    assert response.status_code == 200
    assert response.json() == {"missing": [], "refused": [], "sealed": True}


def test_seal_with_another_count_names_what_is_absent(attempt: Attempt) -> None:
    make_run(attempt)
    digest = seal_digest(queries.segment_digests(attempt))

    response = post_seal(attempt, f'{{"segments": 4, "digest": "{digest}", "final": true}}')

    assert "without seq 3, 4" in assert_problem(response, 409, "segments-missing")
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/3", "/4"]


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"segments": -1, "digest": "x", "final": 1}'])
def test_seal_that_is_malformed_names_the_field(attempt: Attempt, body: str) -> None:
    assert_problem(post_seal(attempt, body), 422, "invalid-document")
