"""Every answer of GitHub becomes an outcome that says whether something happened and what to do."""

from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django import Settings

from gates.checks import github
from gates.checks.github import CheckRun, Delivered, NotOurs, Outcome, RateLimited, Refused, Unknown
from tests.gates.checks.scripted import Answer, scripted_github
from tests.lanes.factories import HEAD_SHA, NOW

OURS = UUID("8c5a7c7e-43f5-4b5c-9f59-3c1a7c1f0b6a")


def _outcome(settings: Settings, answer: Answer, *, github_id: int | None = None) -> Outcome:
    with scripted_github(answer) as url:
        settings.GITHUB_API_URL, settings.GITHUB_TOKEN = url, "ghs_test"
        with github.connection(at=NOW, timeout_seconds=5) as hub:
            if github_id is None:
                return hub.create("acme/agent", {"name": "x"})
            return hub.update("acme/agent", github_id, {"name": "x"})


def _found(settings: Settings, answer: Answer) -> object:
    with scripted_github(answer) as url:
        settings.GITHUB_API_URL, settings.GITHUB_TOKEN = url, "ghs_test"
        with github.connection(at=NOW, timeout_seconds=5) as hub:
            return hub.find("acme/agent", head_sha=HEAD_SHA, name="x", external_id=OURS)


def test_success_names_the_check_run(settings: Settings) -> None:
    assert _outcome(settings, Answer(201, {"id": 7})) == Delivered(7)


@pytest.mark.parametrize("body", ["<html>", [], {}, {"id": "seven"}])
def test_success_that_names_no_check_run_is_unknown(settings: Settings, body: object) -> None:
    assert isinstance(_outcome(settings, Answer(201, body)), Unknown)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_unknown(settings: Settings, status: int) -> None:
    outcome = _outcome(settings, Answer(status, "<html>unicorn</html>"))

    assert isinstance(outcome, Unknown)
    assert str(status) in outcome.detail


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "30"}, 30),
        (
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW.timestamp() + 1800:.0f}"},
            1800,
        ),
        # A reset that our clock takes for past is still no reason to come back at once.
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW.timestamp() - 60:.0f}"}, 1),
        ({"X-RateLimit-Remaining": "17", "X-RateLimit-Reset": "1"}, 60),
        ({"Retry-After": "soon"}, 60),
    ],
)
def test_limits_say_when_to_come_back(
    settings: Settings, status: int, headers: dict[str, str], seconds: int
) -> None:
    body = {"message": "You have exceeded a secondary rate limit."}

    outcome = _outcome(settings, Answer(status, body, headers))

    assert isinstance(outcome, RateLimited)
    assert outcome.retry_at == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("status", "may_mend", "advice"),
    [
        (401, True, "EVALHUB_GITHUB_TOKEN is not valid, or has expired."),
        (403, True, "The credentials need the permission `checks: write` on this repository."),
        (404, True, "must be the repository's OWNER/NAME"),
        (422, False, "The commit must be in this repository"),
        (301, True, "Nothing was delivered."),
        (409, True, "Nothing was delivered."),
    ],
)
def test_refusals_say_what_to_mend(
    *, settings: Settings, status: int, may_mend: bool, advice: str
) -> None:
    outcome = _outcome(settings, Answer(status, {"message": "Some reason"}))

    assert isinstance(outcome, Refused)
    assert outcome.may_mend == may_mend
    assert outcome.detail.startswith(f"GitHub answered {status}: Some reason. ")
    assert advice in outcome.detail


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, {"message": "Not Found"}),
        Answer(
            403,
            {"message": "This check run can only be modified by the GitHub App that created it."},
        ),
    ],
)
def test_check_run_that_cannot_be_changed_is_not_ours(settings: Settings, answer: Answer) -> None:
    assert isinstance(_outcome(settings, answer, github_id=7), NotOurs)


def test_find_returns_ours_newest_first(settings: Settings) -> None:
    runs = [
        {"id": 5, "status": "queued", "conclusion": None, "external_id": str(OURS)},
        {"id": 6, "status": "queued", "conclusion": None, "external_id": "of somebody else"},
        {"id": 7, "status": "completed", "conclusion": "failure", "external_id": str(OURS)},
    ]

    assert _found(settings, Answer(200, {"total_count": 3, "check_runs": runs})) == [
        CheckRun(7, "completed", "failure"),
        CheckRun(5, "queued", None),
    ]


@pytest.mark.parametrize("body", ["", {}, {"check_runs": None}, []])
def test_find_takes_no_other_answer_for_an_empty_list(settings: Settings, body: object) -> None:
    assert isinstance(_found(settings, Answer(200, body)), Unknown)
