"""The rolling issue: a comment for each notice, once, and a text and state that follow the notices.

GitHub makes a second issue or comment if it is asked twice, so what may have been done is looked for
by its marker before it is done again. One step at a time holds the claim of the issue's row; nothing
sleeps, and no transaction is open while GitHub is spoken to.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from evalhub.protocol.canonical import bytes_digest
from evalhub.web.transports.outcomes import Arrived, Outcome, Refused, Uncertain
from gates.checks import github, queries
from gates.checks.github import Delivered, GitHub, Issue, NotOurs, RateLimited, Unknown
from gates.checks.models import IssueFamily, RollingIssue
from gates.checks.operations import issue_texts
from lanes.projects.models import Channel, Delivery, NoticeKind
from lanes.projects.operations import deliveries
from lanes.projects.queries import deliveries as delivery_queries

FAMILIES: Mapping[NoticeKind, IssueFamily] = {
    NoticeKind.NIGHTLY_RED: IssueFamily.NIGHTLY,
    NoticeKind.NIGHTLY_ABSENT: IssueFamily.NIGHTLY,
    NoticeKind.BUDGET: IssueFamily.BUDGET,
    NoticeKind.DRIFT: IssueFamily.DRIFT,
    NoticeKind.TEST: IssueFamily.TEST,
}
# Longer than the requests of one step take, each at its time-out: look, search, write.
CLAIM = timedelta(seconds=200)
# The clocks of GitHub and of this server may differ by so much.
_CLOCK_SKEW = timedelta(minutes=10)


def take_step(
    channel: Channel, *, at: datetime, timeout_seconds: float = github.TIMEOUT_SECONDS
) -> bool:
    """Add the comment that is owed longest, else bring one issue's text up to date.

    Returns whether to go on. Safe to call at any time and by several at once. Speaks to GitHub:
    never to be called inside a transaction.
    """
    if not delivery_queries.has_free_way(channel, at=at):
        return False
    delivery = delivery_queries.due_deliveries(channel, at=at).first()
    if delivery is None:
        behind = queries.issues_behind(channel, at=at).first()
        return behind is not None and _follow(behind, channel, at=at, seconds=timeout_seconds)
    issue, _ = RollingIssue.objects.get_or_create(
        project=channel.project,
        family=FAMILIES[NoticeKind(delivery.notice.kind)],
        defaults={"channel": channel},
    )
    return _tell(delivery, issue, at=at, seconds=timeout_seconds)


def _tell(delivery: Delivery, issue: RollingIssue, *, at: datetime, seconds: float) -> bool:
    if not _claimed(issue, at=at):
        return False
    try:
        if not deliveries.claimed(delivery, at=at):
            return True
        outcome = _commented(delivery, issue, at=at, seconds=seconds)
        deliveries.record(delivery, outcome, at=at)
    finally:
        _release(issue)
    return isinstance(outcome, Arrived)


def _follow(issue: RollingIssue, channel: Channel, *, at: datetime, seconds: float) -> bool:
    """Write the issue's text and state as they should be; note what was shown."""
    if not _claimed(issue, at=at):
        return False
    # Read before the notices: what changes meanwhile is a later version.
    version = Channel.objects.get(pk=channel.pk).version
    try:
        outcome = _shown(issue, channel, at=at, seconds=seconds)
        if isinstance(outcome, Arrived):
            RollingIssue.objects.filter(pk=issue.pk).update(channel=channel, shown_version=version)
            deliveries.record_success(channel, at=at)
        else:
            deliveries.record_failure(channel, outcome, at=at)
    finally:
        _release(issue)
    return isinstance(outcome, Arrived)


def _commented(delivery: Delivery, issue: RollingIssue, *, at: datetime, seconds: float) -> Outcome:
    if not settings.GITHUB_TOKEN:
        return Refused(queries.NO_CREDENTIALS)
    notice = delivery.notice
    with github.connection(at=at, timeout_seconds=seconds) as hub:
        found = _found(issue, hub) or _created(issue, delivery.channel, hub)
        if not isinstance(found, Issue):
            return _told(found)
        if delivery.is_uncertain:
            marker = issue_texts.marker_of_notice(notice)
            since = notice.raised_at - _CLOCK_SKEW
            there = hub.find_comment(issue.project.name, found.number, marker=marker, since=since)
            if there is not None:
                return Arrived(str(there)) if isinstance(there, int) else _told(there)
        return _told(hub.comment(issue.project.name, found.number, issue_texts.comment(notice)))


def _shown(issue: RollingIssue, channel: Channel, *, at: datetime, seconds: float) -> Outcome:
    if not settings.GITHUB_TOKEN:
        return Refused(queries.NO_CREDENTIALS)
    wanted = _wanted(issue, channel)
    digest = bytes_digest(repr(sorted(wanted.items())).encode())
    if digest == issue.shown_digest:
        # Something changed that this family does not show.
        return Arrived()
    with github.connection(at=at, timeout_seconds=seconds) as hub:
        found = _found(issue, hub) or _created(issue, channel, hub)
        if not isinstance(found, Issue):
            return _told(found)
        outcome = hub.update_issue(issue.project.name, found.number, wanted)
    if isinstance(outcome, Delivered):
        RollingIssue.objects.filter(pk=issue.pk).update(shown_digest=digest)
    return _told(outcome)


def _wanted(issue: RollingIssue, channel: Channel) -> dict[str, object]:
    """Return the text and state that the issue should have."""
    going_on, over = (list(part) for part in queries.notices_of_issue(channel, _kinds_of(issue)))
    text = issue_texts.body(issue, going_on=going_on, over=over)
    return {"body": text, "state": "open" if going_on else "closed"}


def _kinds_of(issue: RollingIssue) -> list[NoticeKind]:
    return [kind for kind, family in FAMILIES.items() if family == issue.family]


def _found(issue: RollingIssue, hub: GitHub) -> Issue | github.Failed | None:
    """Return the issue at GitHub, by its number or else by its marker; None if there is none."""
    marker, repository = issue_texts.marker_of_issue(issue), issue.project.name
    if issue.number is not None:
        known = hub.issue(repository, issue.number)
        if isinstance(known, Issue) and marker in known.text:
            return known
        if not isinstance(known, Issue | NotOurs):
            return known
    listed = hub.issues_labelled(repository, issue_texts.LABEL)
    if not isinstance(listed, list):
        return listed
    # The oldest: of two that a lost answer made, each caller takes the same.
    found = next((one for one in listed if marker in one.text), None)
    if found is not None:
        _keep_number(issue, found.number)
    return found


def _created(issue: RollingIssue, channel: Channel, hub: GitHub) -> Issue | github.Failed:
    text = str(_wanted(issue, channel)["body"])
    body = {"title": issue_texts.title(issue), "body": text, "labels": [issue_texts.LABEL]}
    outcome = hub.create_issue(issue.project.name, body)
    if not isinstance(outcome, Delivered):
        return outcome
    _keep_number(issue, outcome.github_id)
    return Issue(outcome.github_id, is_open=True, text=text)


def _keep_number(issue: RollingIssue, number: int) -> None:
    # What another issue has shown says nothing about this one.
    RollingIssue.objects.filter(pk=issue.pk).update(number=number, shown_digest="")
    issue.number, issue.shown_digest = number, ""


def _told(outcome: github.Outcome) -> Outcome:
    """Return GitHub's outcome as that of a channel."""
    match outcome:
        case Delivered(github_id=github_id):
            return Arrived(str(github_id))
        case Unknown(detail=detail):
            return Uncertain(detail)
        case RateLimited(detail=detail, retry_at=retry_at):
            return Refused(detail, retry_at)
        case github.Refused(detail=detail) | NotOurs(detail=detail):
            return Refused(detail)


def _claimed(issue: RollingIssue, *, at: datetime) -> bool:
    """Return whether this caller may speak for the issue; then it must release it."""
    free = RollingIssue.objects.filter(
        Q(claimed_until__isnull=True) | Q(claimed_until__lt=at), pk=issue.pk
    )
    if not free.update(claimed_until=at + CLAIM):
        return False
    issue.refresh_from_db()
    return True


def _release(issue: RollingIssue) -> None:
    # Only while the claim is still this one.
    held = RollingIssue.objects.filter(pk=issue.pk, claimed_until=issue.claimed_until)
    held.update(claimed_until=None)
