"""Reads: the check of a plan, the rolling issues, and what the sweeps look for."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db.models import Exists, F, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from gates.checks.models import Check, RollingIssue
from lanes.plans.models import Plan, PlanState
from lanes.projects.models import Channel, Delivery, Notice, NoticeKind, NoticeState
from lanes.projects.queries import deliveries as delivery_queries

MOST_GOING_ON = 50
_MOST_OVER = 10
NO_CREDENTIALS = "undelivered: no GitHub credentials are set (EVALHUB_GITHUB_TOKEN)"


def plan_with_id(plan_id: int) -> Plan:
    """Return a plan as tasks name it, without its document."""
    return Plan.objects.select_related("project", "policy").defer("document").get(pk=plan_id)


def check_of_plan(plan: Plan) -> Check | None:
    """Return the check of the plan's suite on the plan's commit; None if there is none."""
    if plan.head_sha is None or plan.is_foreign:
        return None
    checks = Check.objects.filter(project=plan.project_id, suite_name=plan.suite_name)
    return checks.filter(head_sha=plan.head_sha).first()


def may_have_check() -> Q:
    """Select the plans that may speak on a commit: gates, vouched for, with a commit to name."""
    is_trusted = Q(is_verified=True) | Q(project__checks_for_unverified=True)
    return Q(is_trusted, kind="gate", head_sha__isnull=False, is_foreign=False)


def lagging_plans() -> QuerySet[Plan]:
    """Return plans of which the row of their commit's check shows no notice.

    Concluding a plan writes its check in the same transaction, so only unconcluded plans can lag.
    """
    checks = Check.objects.filter(
        project=OuterRef("project"),
        suite_name=OuterRef("suite_name"),
        head_sha=OuterRef("head_sha"),
    )
    not_seen = (
        Q(looked_at__lt=OuterRef("registered_at"))
        | Q(looked_at__lt=OuterRef("superseded_at"))
        | Q(looked_at__lt=OuterRef("cancelled_at"))
    )
    is_heard = Q(cancelled_at__isnull=True)
    not_shown = Q(Exists(checks.filter(status="completed"))) | Q(
        Exists(checks.filter(status="queued")), state=PlanState.RUNNING
    )
    # What is not concluded is behind its inputs, and that has an index. The keys first: PostgreSQL
    # cannot tell how few they are, and would prepare for many.
    behind = Plan.objects.filter(concluded_version__lt=F("inputs_version"))
    keys = list(behind.exclude(state=PlanState.CONCLUDED).values_list("pk", flat=True))
    unconcluded = Plan.objects.filter(may_have_check(), pk__in=keys)
    lagging = unconcluded.filter(
        ~Exists(checks) | Exists(checks.filter(not_seen)) | (is_heard & not_shown)
    )
    return lagging.defer("document").order_by("deadline_at", "pk")


def is_undelivered() -> Q:
    return Q(sent_version__lt=F("desired_version"))


def is_due(at: datetime) -> Q:
    """Select the checks that are to be sent now and that nobody is sending."""
    is_asked_for = Q(next_attempt_at__lte=at)
    if settings.GITHUB_TOKEN:
        # Nothing tells the rows that the credentials they waited for have come.
        is_asked_for |= Q(next_attempt_at__isnull=True, last_error=NO_CREDENTIALS)
    is_unclaimed = Q(claimed_until__isnull=True) | Q(claimed_until__lt=at)
    return is_undelivered() & is_asked_for & is_unclaimed


def due_checks(*, at: datetime) -> QuerySet[Check]:
    """Return the checks that are due, the longest waiting first."""
    return Check.objects.filter(is_due(at)).order_by("next_attempt_at", "pk")


def oldest_undelivered_at() -> datetime | None:
    """Return since when GitHub has been behind on the check that waits longest; None if none waits.

    Those that GitHub refused for good wait for a change and are counted by `refused_check_count`.
    """
    waiting = Check.objects.filter(is_undelivered()).exclude(_is_refused())
    # Rows of before the column existed know only their last change.
    since = Min(Coalesce("undelivered_since", "desired_at"))
    oldest: datetime | None = waiting.aggregate(since=since)["since"]
    return oldest


def refused_check_count() -> int:
    """Return how many checks GitHub does not take as they are: nobody tries again until they change."""
    return Check.objects.filter(is_undelivered(), _is_refused()).count()


def checks_without_credentials() -> int:
    """Return how many checks wait for credentials that are not set."""
    return Check.objects.filter(is_undelivered(), last_error=NO_CREDENTIALS).count()


def _is_refused() -> Q:
    return Q(next_attempt_at__isnull=True) & ~Q(last_error__in=["", NO_CREDENTIALS])


def issues_behind(channel: Channel, *, at: datetime) -> QuerySet[RollingIssue]:
    """Return the issues that do not show the newest notices of their project's channel."""
    is_free = Q(claimed_until__isnull=True) | Q(claimed_until__lt=at)
    # Read anew: `channel` may be older than what it is asked about.
    version = Channel.objects.filter(pk=channel.pk).values("version")[:1]
    is_behind = ~Q(channel=channel) | ~Q(shown_version=Subquery(version))
    found = RollingIssue.objects.filter(is_free, is_behind, project=channel.project_id)
    # Without a number nothing was told in it yet.
    return found.filter(number__isnull=False).select_related("project").order_by("pk")


def issue_channels_with_work(*, at: datetime) -> QuerySet[Channel]:
    """Return the usable channels with a comment that is owed, or an issue that is behind."""
    owed = Delivery.objects.filter(delivery_queries.is_due(at), channel=OuterRef("pk"))
    behind = RollingIssue.objects.filter(
        ~Q(channel=OuterRef("pk")) | ~Q(shown_version=OuterRef("version")),
        project=OuterRef("project"),
        number__isnull=False,
    )
    usable = Channel.objects.filter(
        delivery_queries.is_usable(at), delivery_queries.channels_of_kind(is_issue=True)
    )
    return usable.filter(Exists(owed) | Exists(behind)).order_by("pk")


class IssueNotices(NamedTuple):
    """What a rolling issue shows, newest first."""

    going_on: QuerySet[Notice]
    over: QuerySet[Notice]


def notices_of_issue(channel: Channel, kinds: Sequence[NoticeKind]) -> IssueNotices:
    """Return the notices of these kinds that the channel carries: what goes on, and some of the rest."""
    carried = Notice.objects.filter(
        Exists(Delivery.objects.filter(notice=OuterRef("pk"), channel=channel)),
        project=channel.project_id,
        kind__in=kinds,
    )
    carried = carried.select_related("project").order_by("-pk")
    over = carried.filter(state=NoticeState.RESOLVED)
    going_on = carried.filter(state__in=[NoticeState.OPEN, NoticeState.ACKNOWLEDGED])
    return IssueNotices(going_on[:MOST_GOING_ON], over[:_MOST_OVER])
