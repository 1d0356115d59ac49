"""GitHub gets each check once, whatever is lost, refused or slowed down on the way."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from gates.checks import queries
from gates.checks.github import Delivered
from gates.checks.models import Check
from gates.checks.operations import delivery
from gates.checks.operations.delivery import deliver_check
from gates.checks.operations.desired import desire_check
from tests.gates.checks.factories import conclude, make_check, make_checked_project
from tests.gates.checks.scripted import Answer, scripted_github
from tests.lanes.factories import HEAD_SHA, NOW, make_attempt, make_plan
from tests.programs.github import GitHubStandIn

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
LATER = NOW + timedelta(minutes=20)


def _delivered(check: Check, *, timeout_seconds: float = 10) -> Check:
    deliver_check(check, at=check.next_attempt_at or NOW, timeout_seconds=timeout_seconds)
    return Check.objects.select_related("project").get(pk=check.pk)


def test_new_check_is_created_and_read_back(standin: GitHubStandIn) -> None:
    check = _delivered(make_check())

    (run,) = standin.check_runs(check.project.name, HEAD_SHA)
    assert run["id"] == check.github_id
    assert (run["name"], run["status"]) == ("evalhub / support", "queued")
    assert run["external_id"] == str(check.external_id)
    assert run["details_url"] == check.details_url
    assert run["output"]["summary"] == check.summary
    assert check.is_delivered
    assert (check.sent_version, check.delivered_at, check.last_error) == (1, NOW, "")
    assert (check.next_attempt_at, check.claimed_until, check.attempts) == (None, None, 0)
    methods = [one.method for one in standin.asked(check.project.name)][:2]
    assert methods == ["POST", "GET"]


def test_change_is_sent_to_the_same_check_run(standin: GitHubStandIn) -> None:
    plan = make_plan(make_checked_project())
    _delivered(make_check(plan))
    make_attempt(plan)
    _delivered(make_check(plan))
    conclude(plan, "failure", at=NOW)

    check = _delivered(make_check(plan))

    assert standin.writes(check.project.name) == ["POST", "PATCH", "PATCH"]
    (run,) = standin.check_runs(check.project.name, HEAD_SHA)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
    assert run["completed_at"] == "2026-11-29T12:00:00Z"
    assert run["output"]["title"] == check.title


def test_reopened_check_loses_its_conclusion(standin: GitHubStandIn) -> None:
    plan = make_plan(make_checked_project())
    conclude(plan, "failure")
    _delivered(make_check(plan))
    other = make_plan(plan.project, at=NOW)

    check = _delivered(make_check(other))

    (run,) = standin.check_runs(check.project.name, HEAD_SHA)
    assert (run["status"], run["conclusion"]) == ("queued", None)


def test_delivered_check_is_not_sent_again(standin: GitHubStandIn) -> None:
    check = _delivered(make_check())

    deliver_check(check, at=LATER)

    assert standin.writes(check.project.name) == ["POST"]


def test_answer_lost_after_the_commit_leaves_exactly_one_check(standin: GitHubStandIn) -> None:
    standin.fail(after_commit_timeout=1)
    check = _delivered(make_check(), timeout_seconds=0.5)
    assert not check.is_delivered
    assert check.github_id is None
    assert check.last_error == "GitHub did not answer within 0.5 seconds."
    assert check.next_attempt_at is not None
    assert check.next_attempt_at > NOW

    check = _delivered(check)

    (run,) = standin.check_runs(check.project.name, HEAD_SHA)
    assert (check.is_delivered, check.github_id) == (True, run["id"])
    assert standin.writes(check.project.name) == ["POST", "PATCH"]


def test_answer_lost_to_a_process_that_died_leaves_exactly_one_check(
    standin: GitHubStandIn,
) -> None:
    standin.fail(after_commit_timeout=1)
    check = make_check()
    _delivered(check, timeout_seconds=0.5)
    # As it is when the sender was killed before it could write what came of it.
    claimed_until = NOW + timedelta(minutes=2)
    Check.objects.filter(pk=check.pk).update(
        claimed_until=claimed_until, next_attempt_at=NOW, last_error=""
    )
    deliver_check(check, at=NOW + timedelta(minutes=1))
    assert len(standin.writes(check.project.name)) == 1

    deliver_check(check, at=NOW + timedelta(minutes=3))

    check.refresh_from_db()
    assert check.is_delivered
    assert len(standin.check_runs(check.project.name, HEAD_SHA)) == 1


def test_server_error_is_tried_again_later(standin: GitHubStandIn) -> None:
    standin.fail(status=503, times=1)
    check = _delivered(make_check())
    assert check.last_error == "GitHub answered 503: A fault that was asked for."
    assert check.attempts == 1
    assert check.next_attempt_at == NOW + delivery.pause_before_next(check.external_id, attempts=1)
    assert list(queries.due_checks(at=NOW)) == []
    assert list(queries.due_checks(at=LATER)) == [check]

    check = _delivered(check)

    assert check.is_delivered
    assert len(standin.check_runs(check.project.name, HEAD_SHA)) == 1


@pytest.mark.parametrize("status", [403, 429])
def test_rate_limit_is_respected(standin: GitHubStandIn, status: int) -> None:
    standin.fail(status=status, times=1, retry_after=90)

    check = _delivered(make_check())

    assert check.next_attempt_at == NOW + timedelta(seconds=90)
    assert check.last_error.startswith("GitHub limits the rate of requests")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "EVALHUB_GITHUB_TOKEN is not valid"),
        (403, "need the permission `checks: write`"),
        (404, "must be the repository's OWNER/NAME"),
    ],
)
def test_refusal_says_what_to_mend_and_is_not_pressed(
    standin: GitHubStandIn, status: int, sentence: str
) -> None:
    standin.fail(status=status, times=1)

    check = _delivered(make_check())

    assert sentence in check.last_error
    assert check.next_attempt_at == NOW + timedelta(minutes=10)


def test_refused_content_waits_for_a_change(standin: GitHubStandIn) -> None:
    standin.fail(status=422, times=1)

    check = _delivered(make_check())

    assert check.last_error.startswith("GitHub answered 422")
    assert check.next_attempt_at is None
    assert list(queries.due_checks(at=LATER)) == []


def test_unreachable_github_is_tried_again(settings: Settings, standin: GitHubStandIn) -> None:
    settings.GITHUB_API_URL = "http://127.0.0.1:9"

    check = _delivered(make_check())

    assert check.last_error.startswith("GitHub could not be reached")
    assert check.next_attempt_at is not None


def test_check_run_that_is_gone_is_made_anew(standin: GitHubStandIn) -> None:
    plan = make_plan(make_checked_project())
    check = _delivered(make_check(plan))
    Check.objects.filter(pk=check.pk).update(github_id=1)
    conclude(plan, "success")

    check = _delivered(make_check(plan))

    # The run with our id is found by it, not made a second time.
    (run,) = standin.check_runs(check.project.name, HEAD_SHA)
    assert (check.is_delivered, check.github_id) == (True, run["id"])
    assert run["conclusion"] == "success"


def test_later_of_two_check_runs_of_ours_is_followed(standin: GitHubStandIn) -> None:
    check = make_check()
    body = {
        "name": check.name,
        "head_sha": HEAD_SHA,
        "external_id": str(check.external_id),
        "status": "queued",
    }
    check = _delivered(check)
    earlier = check.github_id
    # A request of ours that was lost on its way arrives late.
    httpx.post(
        f"{standin.url}/repos/{check.project.name}/check-runs",
        json=body,
        headers={"Authorization": f"Bearer {standin.token}"},
        trust_env=False,
    ).raise_for_status()
    plan = check.project.plans.get()
    make_attempt(plan)

    check = _delivered(make_check(plan))

    newest, oldest = standin.check_runs(check.project.name, HEAD_SHA)
    assert (check.github_id, oldest["id"]) == (newest["id"], earlier)
    assert newest["status"] == "in_progress"
    assert (oldest["status"], oldest["conclusion"]) == ("completed", "cancelled")


def _run(check: Check, **fields: object) -> dict[str, object]:
    return {
        "id": 7,
        "status": check.status,
        "conclusion": check.conclusion,
        "external_id": str(check.external_id),
        **fields,
    }


def _scripted(settings: Settings, check: Check, *answers: Answer) -> Check:
    """Deliver once to a GitHub that gives these answers."""
    with scripted_github(*answers) as url:
        settings.GITHUB_API_URL, settings.GITHUB_TOKEN = url, "ghs_test"
        return _delivered(check)


def test_check_that_github_does_not_show_yet_is_looked_at_again(settings: Settings) -> None:
    check = make_check()
    nothing = Answer(200, {"check_runs": []})

    check = _scripted(settings, check, Answer(201, {"id": 7}), nothing)

    assert (check.github_id, check.is_delivered) == (7, False)
    assert check.last_error == "GitHub took the check but does not show it yet."
    shown = Answer(200, {"check_runs": [_run(check)]})
    # Not created again: changed, and seen.
    assert _scripted(settings, check, Answer(200, {"id": 7}), shown).is_delivered


def test_check_that_github_shows_otherwise_is_not_delivered(settings: Settings) -> None:
    check = make_check()
    other = Answer(200, {"check_runs": [_run(check, status="in_progress")]})

    assert not _scripted(settings, check, Answer(201, {"id": 7}), other).is_delivered


def test_failed_read_back_keeps_the_id(settings: Settings) -> None:
    check = _scripted(settings, make_check(), Answer(201, {"id": 7}), Answer(502, "bad gateway"))

    assert (check.github_id, check.is_delivered) == (7, False)
    assert check.last_error == "GitHub answered 502: Bad Gateway."


def test_later_check_run_that_cannot_be_changed_is_tried_again(settings: Settings) -> None:
    check = make_check()
    both = Answer(200, {"check_runs": [_run(check), _run(check, id=9)]})

    check = _scripted(settings, check, Answer(201, {"id": 7}), both, Answer(503, ""))

    assert (check.github_id, check.is_delivered) == (7, False)


def test_search_that_fails_creates_nothing(settings: Settings) -> None:
    check = make_check()
    Check.objects.filter(pk=check.pk).update(attempts=1)

    check = _scripted(settings, check, Answer(503, ""))

    assert (check.github_id, check.attempts) == (None, 2)


def test_without_credentials_the_check_is_kept_and_says_so(
    standin: GitHubStandIn, settings: Settings
) -> None:
    settings.GITHUB_TOKEN = None
    check = make_check()
    deliver_check(check, at=NOW)

    check.refresh_from_db()
    assert check.last_error == ("undelivered: no GitHub credentials are set (EVALHUB_GITHUB_TOKEN)")
    assert (check.next_attempt_at, check.attempts, check.is_delivered) == (None, 0, False)
    assert list(queries.due_checks(at=LATER)) == []
    assert standin.asked(check.project.name) == []
    assert queries.oldest_undelivered_at() == NOW


def test_check_that_waited_for_credentials_is_due_when_they_come(
    standin: GitHubStandIn, settings: Settings
) -> None:
    settings.GITHUB_TOKEN = None
    check = make_check()
    deliver_check(check, at=NOW)

    settings.GITHUB_TOKEN = standin.token
    assert list(queries.due_checks(at=LATER)) == [check]
    deliver_check(check, at=LATER)

    check.refresh_from_db()
    assert (check.is_delivered, check.delivered_at) == (True, LATER)
    assert queries.oldest_undelivered_at() is None


def test_claimed_check_is_left_to_its_sender(standin: GitHubStandIn) -> None:
    check = make_check()
    Check.objects.filter(pk=check.pk).update(claimed_until=NOW + timedelta(seconds=60))

    deliver_check(check, at=NOW)

    assert standin.asked(check.project.name) == []


def test_change_during_a_delivery_is_sent_next(standin: GitHubStandIn) -> None:
    plan = make_plan(make_checked_project())
    check = make_check(plan)
    claimed = delivery._claimed(check, at=NOW)
    assert claimed is not None
    make_attempt(plan)
    changed = desire_check(plan, at=NOW)
    assert changed is not None
    assert changed.desired_version == 2
    deliver_check(changed, at=NOW)
    assert standin.asked(check.project.name) == []

    delivery._record(claimed, delivery.Sent(Delivered(1), 1), at=NOW + timedelta(seconds=1))

    check.refresh_from_db()
    assert (check.sent_version, check.desired_version) == (1, 2)
    assert list(queries.due_checks(at=NOW + timedelta(seconds=1))) == [check]


@pytest.mark.django_db(transaction=True)
def test_many_senders_at_once_make_one_check(standin: GitHubStandIn) -> None:
    check = make_check()

    def send(_: int) -> None:
        deliver_check(check, at=NOW)
        connection.close()

    with ThreadPoolExecutor(4) as senders:
        list(senders.map(send, range(8)))

    check.refresh_from_db()
    assert check.is_delivered
    assert standin.writes(check.project.name) == ["POST"]


@given(attempts=st.integers(1, 10_000), identity=st.uuids())
def test_pause_grows_to_a_limit(attempts: int, identity: UUID) -> None:
    pause = delivery.pause_before_next(identity, attempts=attempts)
    base = min(5 * 2 ** min(attempts - 1, 30), 600)

    assert timedelta(seconds=base) <= pause <= timedelta(seconds=base * 1.5)
    assert pause == delivery.pause_before_next(identity, attempts=attempts)


def test_check_is_behind_from_its_first_unsent_change_on(settings: Settings) -> None:
    settings.GITHUB_TOKEN = None
    plan = make_plan(make_checked_project())
    desire_check(plan, at=NOW)
    make_attempt(plan)
    desire_check(plan, at=LATER)

    assert queries.oldest_undelivered_at() == NOW


def test_check_that_changed_while_it_was_sent_is_behind_from_that_change_on(
    standin: GitHubStandIn,
) -> None:
    plan = make_plan(make_checked_project())
    check = _delivered(make_check(plan))
    make_attempt(plan)
    desire_check(plan, at=LATER)
    assert queries.oldest_undelivered_at() == LATER

    check = _delivered(Check.objects.get(pk=check.pk))

    assert (check.is_delivered, check.undelivered_since) == (True, None)


def test_check_that_github_refuses_for_good_does_not_wait(settings: Settings) -> None:
    _scripted(settings, make_check(), Answer(422, {"message": "No commit found"}))

    assert queries.oldest_undelivered_at() is None
    assert queries.refused_check_count() == 1


def test_check_that_may_be_mended_waits(settings: Settings) -> None:
    _scripted(settings, make_check(), Answer(403, {"message": "Resource not accessible"}))

    assert queries.oldest_undelivered_at() == NOW
    assert queries.refused_check_count() == 0
