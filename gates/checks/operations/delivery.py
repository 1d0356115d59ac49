"""Hand a check to GitHub so that it has it once, whatever gets lost on the way.

A row is claimed by a conditional UPDATE, sent without any transaction open, and what came of it is
written by one UPDATE. Nothing sleeps: `next_attempt_at` says when a sweep tries again.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Case, DateTimeField, F, Value, When

from evalhub.protocol.scalars import rfc3339
from gates.checks import github, queries
from gates.checks.github import CheckRun, Delivered, GitHub, NotOurs, RateLimited, Refused, Unknown
from gates.checks.models import Check

# Longer than the requests of one delivery take, each of them at its time-out.
CLAIM = timedelta(seconds=120)
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(minutes=10)


class Sent(NamedTuple):
    """What came of a delivery, and the check run that it reached, if one is known."""

    outcome: github.Outcome
    github_id: int | None


def deliver_check(
    check: Check, *, at: datetime, timeout_seconds: float = github.TIMEOUT_SECONDS
) -> None:
    """Send the check if it is due, until GitHub has its newest version or something is in the way.

    Safe to call at any time and by several at once: only one of them sends. Without credentials
    the row is kept and says so. Speaks to GitHub: never to be called inside a transaction.
    """
    if not settings.GITHUB_TOKEN:
        _note_absent_credentials(check)
        return
    while (claimed := _claimed(check, at=at)) is not None:
        with github.connection(at=at, timeout_seconds=timeout_seconds) as hub:
            sent = _sent(claimed, hub)
        _record(claimed, sent, at=at)


def pause_before_next(external_id: UUID, *, attempts: int) -> timedelta:
    """Return how long to wait after the `attempts`-th failure in a row.

    Doubles up to a limit, and spreads checks that failed together over half as much again; the
    spread follows from the check, so that a test can tell it.
    """
    pause = min(_FIRST_PAUSE * (1 << min(attempts - 1, 16)), _LONGEST_PAUSE)
    spread = hashlib.sha256(f"{external_id}/{attempts}".encode()).digest()[0] / 255
    return pause * (1 + spread / 2)


def _note_absent_credentials(check: Check) -> None:
    undelivered = Check.objects.filter(queries.is_undelivered(), pk=check.pk)
    undelivered.update(last_error=queries.NO_CREDENTIALS, next_attempt_at=None)


def _claimed(check: Check, *, at: datetime) -> Check | None:
    """Return the row as it is to be sent if this caller may send it."""
    due = Check.objects.filter(queries.is_due(at), pk=check.pk)
    # Counted before anything is sent: after a crash the next one knows that there was a try.
    if not due.update(claimed_until=at + CLAIM, attempts=F("attempts") + 1):
        return None
    return Check.objects.select_related("project").get(pk=check.pk)


def _sent(check: Check, hub: GitHub) -> Sent:
    outcome = _written(check, hub)
    if not isinstance(outcome, Delivered):
        return Sent(outcome, check.github_id)
    return _read_back(check, hub, written=outcome)


def _written(check: Check, hub: GitHub) -> github.Outcome:
    repository = check.project.name
    if check.github_id is not None:
        outcome = hub.update(repository, check.github_id, _body(check))
        if not isinstance(outcome, NotOurs):
            return outcome
    if check.attempts > 1 or check.github_id is not None:
        # An earlier answer may have been lost after GitHub had made the check.
        found = _found(check, hub)
        if not isinstance(found, list):
            return found
        others = [run for run in found if run.github_id != check.github_id]
        if others:
            return hub.update(repository, others[0].github_id, _body(check))
    return hub.create(repository, {**_body(check), "head_sha": check.head_sha})


def _read_back(check: Check, hub: GitHub, *, written: Delivered) -> Sent:
    """Confirm that GitHub shows what was sent, on the newest check run of ours.

    The newest is the one that counts for a required check. A run that a lost request made may turn
    up later than the one that was written.
    """
    found = _found(check, hub)
    if not isinstance(found, list):
        return Sent(found, written.github_id)
    newest = max([written.github_id, *(run.github_id for run in found)])
    if newest != written.github_id:
        outcome = hub.update(check.project.name, newest, _body(check))
        if not isinstance(outcome, Delivered):
            return Sent(outcome, written.github_id)
    elif CheckRun(newest, check.status, check.conclusion) not in found:
        return Sent(Unknown("GitHub took the check but does not show it yet."), newest)
    for older in found:
        if older.github_id != newest and older.status != "completed":
            hub.update(check.project.name, older.github_id, _retired_body())
    return Sent(Delivered(newest), newest)


def _found(check: Check, hub: GitHub) -> list[CheckRun] | github.Failed:
    return hub.find(
        check.project.name,
        head_sha=check.head_sha,
        name=check.name,
        external_id=check.external_id,
    )


def _body(check: Check) -> Mapping[str, object]:
    body: dict[str, object] = {
        "name": check.name,
        "external_id": str(check.external_id),
        "details_url": check.details_url,
        "status": check.status,
        "output": {"title": check.title, "summary": check.summary, "text": check.text},
    }
    if check.started_at is not None:
        body["started_at"] = rfc3339(check.started_at.replace(microsecond=0))
    if check.conclusion is not None and check.completed_at is not None:
        body["conclusion"] = check.conclusion
        # Without it GitHub keeps the time of an earlier completion.
        body["completed_at"] = rfc3339(check.completed_at.replace(microsecond=0))
    return body


def _retired_body() -> Mapping[str, object]:
    return {
        "status": "completed",
        "conclusion": "cancelled",
        "output": {
            "title": "Replaced",
            "summary": "A newer check of this commit replaces this one.",
        },
    }


def _record(check: Check, sent: Sent, *, at: datetime) -> None:
    # Only while the claim is still this one: a slower sender must not undo a later one's record.
    row = Check.objects.filter(pk=check.pk, claimed_until=check.claimed_until)
    if isinstance(sent.outcome, Delivered):
        is_newest = When(desired_version=check.desired_version, then=Value(None))
        row.update(
            github_id=sent.github_id,
            sent_version=check.desired_version,
            delivered_at=at,
            undelivered_since=Case(is_newest, default=F("desired_at")),
            attempts=0,
            last_error="",
            claimed_until=None,
            next_attempt_at=Case(is_newest, default=Value(at), output_field=DateTimeField()),
        )
        return
    row.update(
        github_id=sent.github_id,
        last_error=sent.outcome.detail,
        claimed_until=None,
        next_attempt_at=_next_attempt_at(check, sent.outcome, at=at),
    )


def _next_attempt_at(check: Check, failed: github.Failed, *, at: datetime) -> datetime | None:
    match failed:
        case RateLimited(retry_at=retry_at):
            return retry_at
        case Refused(may_mend=False):
            return None
        case Refused():
            # Nobody tells evalhub when permissions change; this is often enough to be seen.
            return at + _LONGEST_PAUSE
    return at + pause_before_next(check.external_id, attempts=check.attempts)
