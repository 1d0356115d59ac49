"""Reads: suites, policies, plans, lanes and attempts.

Plans come without their document, which may be megabytes; `plan_document` has it parsed.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    Exists,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Coalesce

from evalhub.protocol import plan as plan_documents
from evalhub.protocol.faults import parse_document
from evalhub.protocol.policy import Policy
from evalhub.protocol.retained import RetainedOrigin
from evalhub.protocol.suite import Suite
from evalhub.web.errors import NotFoundError
from lanes.plans.cron import TimetableError, read_timetable
from lanes.plans.models import (
    Attempt,
    AttemptState,
    ExpectedSchedule,
    Lane,
    Origin,
    Plan,
    PlanState,
    PolicyVersion,
    SuiteVersion,
)
from lanes.projects.models import Project


def current_policy(project: Project) -> PolicyVersion | None:
    """Return the project's policy; None before the first was registered."""
    policies = PolicyVersion.objects.filter(project=project, is_foreign=False)
    return policies.order_by("-current_since", "-pk").first()


def current_suite(project: Project, name: str) -> SuiteVersion | None:
    """Return the current version of a suite; None if the project has no suite of that name."""
    suites = SuiteVersion.objects.filter(project=project, name=name)
    return suites.order_by("-current_since", "-pk").first()


def policy_document(policy: PolicyVersion) -> Policy:
    return _policy_with_digest(policy.digest)


def suite_document(suite: SuiteVersion) -> Suite:
    return parse_document(Suite, suite.document)


def plan_document(plan: Plan) -> plan_documents.Plan:
    """Return the plan as the wire has it. Parsed once and kept: a digest names it for good."""
    return _plan_with_digest(plan.digest)


def plan_with_digest(digest: str) -> Plan:
    """Return the registered plan.

    Raises:
        NotFoundError: if no plan of this digest is registered.
    """
    plan = _plans().filter(digest=digest).first()
    if plan is None:
        raise NotFoundError(f"There is no plan {_shown(digest)}.")
    return plan


class PlanFilter(NamedTuple):
    """Which plans are wanted; None does not filter."""

    suite_name: str | None = None
    conclusion: str | None = None
    """The newest conclusion's word; `NOT_CONCLUDED` for plans without one."""
    workflow_run_id: int | None = None


NOT_CONCLUDED = ""
ALL_PLANS = PlanFilter()


def plans_of(
    projects: Iterable[Project],
    *,
    before: Plan | None = None,
    limit: int,
    wanted: PlanFilter = ALL_PLANS,
) -> list[Plan]:
    """Return the newest plans of some projects; `before` is the last plan of the page above."""
    ids = [project.pk for project in projects]
    plans = _wanted(Plan.objects.order_by("-registered_at", "-pk"), wanted, before=before)
    rows = plans.filter(project__in=ids)
    if len(ids) > 1:
        # Else the newest few would be sorted out of everything that these projects ever had. A
        # project's own n-th is read off an index, and what is older than the newest of those n-th
        # is on no page.
        nth = plans.filter(project=OuterRef("pk")).values("registered_at")[limit - 1 : limit]
        limits = Project.objects.filter(pk__in=ids).annotate(nth=Subquery(nth))
        oldest = limits.aggregate(oldest=Max("nth"))["oldest"]
        if oldest is not None:
            rows = rows.filter(registered_at__gte=oldest)
    return list(rows.select_related("project").defer("document")[:limit])


def _wanted(plans: QuerySet[Plan], wanted: PlanFilter, *, before: Plan | None) -> QuerySet[Plan]:
    if wanted.suite_name is not None:
        plans = plans.filter(suite_name=wanted.suite_name)
    if wanted.conclusion == NOT_CONCLUDED:
        plans = plans.filter(conclusion__isnull=True)
    elif wanted.conclusion is not None:
        plans = plans.filter(conclusion=wanted.conclusion)
    if wanted.workflow_run_id is not None:
        # Who asks for it wants to go on with the plan; a foreign one takes no evidence.
        plans = plans.filter(workflow_run_id=wanted.workflow_run_id, is_foreign=False)
    if before is not None:
        # One range of the index, and what lies in it but not behind `before` taken out: a condition
        # of two alternatives would have both databases sort.
        plans = plans.filter(registered_at__lte=before.registered_at).exclude(
            registered_at=before.registered_at, pk__gte=before.pk
        )
    return plans


def plans_of_commit(project: Project, suite_name: str, head_sha: str) -> list[Plan]:
    """Return the plans of a suite whose check goes to this commit, oldest first."""
    plans = _plans().filter(
        project=project, suite_name=suite_name, head_sha=head_sha, is_foreign=False
    )
    # Sorted here: for an order SQLite would read an index of times, with every plan of the suite.
    return sorted(plans, key=lambda plan: (plan.registered_at, plan.pk))


def plans_to_conclude(*, at: datetime) -> list[Plan]:
    """Return finished plans whose newest conclusion is behind their inputs, oldest deadline first.

    Finished: the newest attempt of every required lane is sealed, or the plan was closed, or its
    deadline has passed.
    """
    # Their keys first: PostgreSQL cannot tell how few they are, and would prepare for many.
    behind = list(_behind_inputs().values_list("pk", flat=True))
    finished = Q(cancelled_at__isnull=False) | _is_finished(at)
    return list(_plans().filter(finished, pk__in=behind).order_by("deadline_at", "pk"))


def unconcluded_since(*, at: datetime) -> datetime | None:
    """Return since when a finished gate plan has been waiting to be concluded; None if none waits.

    A plan waits from when it was finished, or from when its inputs moved after that.
    """
    ended = Attempt.objects.filter(lane__plan=OuterRef("pk"), ended_at__isnull=False)
    newest_end = Subquery(ended.order_by("-ended_at").values("ended_at")[:1])
    rows = _behind_inputs().filter(kind="gate")
    rows = rows.annotate(
        moved_at=Coalesce("behind_since", "concluded_at", "registered_at"),
        sealed_at=Case(When(_all_sealed(), then=newest_end), output_field=DateTimeField()),
    )
    waits = []
    for moved_at, *ends in rows.values_list("moved_at", "closed_at", "sealed_at", "deadline_at"):
        passed = [end for end in ends if end is not None and end <= at]
        if passed:
            waits.append(max(moved_at, min(passed)))
    return min(waits, default=None)


def open_plan_counts() -> dict[PlanState, int]:
    """Return how many plans are registered and how many run; those cancelled are not counted."""
    rows = _open_plans().values_list("state").annotate(count=Count("pk"))
    return {PlanState.REGISTERED: 0, PlanState.RUNNING: 0} | {
        PlanState(state): count for state, count in rows
    }


def attempt_counts_of_open_plans() -> dict[AttemptState, int]:
    """Return how many attempts are heard, and how many are silent, in the plans that run."""
    accepting = [AttemptState.OPEN, AttemptState.SILENT]
    attempts = Attempt.objects.filter(lane__plan__in=_open_plans(), state__in=accepting)
    rows = attempts.values_list("state").annotate(count=Count("pk"))
    return dict.fromkeys(accepting, 0) | {AttemptState(state): count for state, count in rows}


def is_finished(plan: Plan, *, at: datetime) -> bool:
    """Say whether a plan is to be concluded now; a cancelled one never is."""
    return Plan.objects.filter(_is_finished(at), pk=plan.pk, cancelled_at__isnull=True).exists()


def are_lanes_sealed(plan: Plan) -> bool:
    """Say whether the newest attempt of every lane that a plan waits for is sealed."""
    return Plan.objects.filter(_all_sealed(), pk=plan.pk).exists()


def origin_of(plan: Plan) -> RetainedOrigin | None:
    """Return where a foreign plan came from; None of one that was registered here."""
    if not plan.is_foreign:
        return None
    document = Origin.objects.filter(plan=plan).values_list("document", flat=True).first()
    return parse_document(RetainedOrigin, document) if document is not None else None


def lane_named(plan: Plan, name: str) -> Lane:
    """Return a lane of the plan.

    Raises:
        NotFoundError: if the plan has no lane of that name.
    """
    lane = Lane.objects.filter(plan=plan, name=name).first()
    if lane is None:
        raise NotFoundError(f"Plan {plan.digest} has no lane {name!r}.")
    return lane


def lanes_of(plan: Plan) -> list[Lane]:
    """Return the plan's lanes in the order of its document."""
    return list(Lane.objects.filter(plan=plan).order_by("pk"))


def attempt_with_key(key: str) -> Attempt:
    """Return an attempt with its lane, plan and project loaded.

    Raises:
        NotFoundError: if there is none.
    """
    attempts = Attempt.objects.select_related("lane__plan__project").defer("lane__plan__document")
    attempt = attempts.filter(key=key).first()
    if attempt is None:
        raise NotFoundError(f"There is no attempt {key!r}.")
    return attempt


def attempts_of(plan: Plan) -> list[Attempt]:
    """Return every attempt of a plan, by lane and number."""
    attempts = Attempt.objects.filter(lane__plan=plan).select_related("lane")
    return list(attempts.order_by("lane_id", "number"))


def newest_attempts(plan: Plan) -> dict[str, Attempt | None]:
    """Return the newest attempt of each lane by the lane's name; None where none was opened."""
    newest: dict[str, Attempt | None] = {lane.name: None for lane in lanes_of(plan)}
    newest.update((attempt.lane.name, attempt) for attempt in attempts_of(plan))
    return newest


EARLY = timedelta(minutes=5)
"""How long before it is due a nightly may come: a scheduler's clock may be ahead of this server's."""


class ScheduleState(NamedTuple):
    """Where a nightly that is waited for stands; no due times while it is paused or unreadable."""

    schedule: ExpectedSchedule
    last_due_at: datetime | None
    next_due_at: datetime | None
    last_seen: Plan | None
    word: str
    """paused, unreadable, absent, in_time, awaited, overdue (no sweep has looked), not_due_yet."""


def schedules_of(projects: Iterable[Project], *, suite_name: str = "") -> list[ExpectedSchedule]:
    """Return the nightlies that some projects wait for, by project and suite."""
    schedules = ExpectedSchedule.objects.filter(project__in=projects).select_related("project")
    if suite_name:
        schedules = schedules.filter(suite_name=suite_name)
    return list(schedules.order_by("project__name", "suite_name"))


def schedule_of(project: Project, suite_name: str) -> ExpectedSchedule:
    """Return the nightly that a project waits for.

    Raises:
        NotFoundError: if it waits for none of this suite.
    """
    schedule = ExpectedSchedule.objects.filter(project=project, suite_name=suite_name).first()
    if schedule is None:
        raise NotFoundError(f"Project {project.name} has no schedule of a suite {suite_name!r}.")
    return schedule


def watched_schedules() -> list[ExpectedSchedule]:
    """Return every schedule that the sweep looks at."""
    schedules = ExpectedSchedule.objects.filter(is_paused=False).select_related("project")
    return list(schedules.order_by("pk"))


def nightlies(project: Project, suite_name: str) -> QuerySet[Plan]:
    """Return the plans of a suite that a scheduler asked for here, oldest first."""
    plans = _plans().filter(
        project=project, suite_name=suite_name, event="schedule", is_foreign=False
    )
    return plans.order_by("registered_at", "pk")


def schedule_states(schedules: Iterable[ExpectedSchedule], *, at: datetime) -> list[ScheduleState]:
    """Return when nightlies were due, were seen, and are due next, in the order that was given."""
    schedules = list(schedules)
    seen = Plan.objects.filter(
        project=OuterRef("project"),
        suite_name=OuterRef("suite_name"),
        event="schedule",
        is_foreign=False,
    )
    newest = dict(
        ExpectedSchedule.objects.filter(pk__in=[schedule.pk for schedule in schedules])
        .annotate(newest=Subquery(seen.order_by("-registered_at", "-pk").values("pk")[:1]))
        .values_list("pk", "newest")
    )
    plans = _plans().in_bulk([pk for pk in newest.values() if pk is not None])
    return [_schedule_state(s, plans.get(newest.get(s.pk)), at=at) for s in schedules]


def _schedule_state(
    schedule: ExpectedSchedule, seen: Plan | None, *, at: datetime
) -> ScheduleState:
    if schedule.is_paused:
        return ScheduleState(schedule, None, None, seen, "paused")
    try:
        timetable = read_timetable(schedule.cron, schedule.timezone)
    except TimetableError:
        # Its time zone is not known on this machine; the sweep says so.
        return ScheduleState(schedule, None, None, seen, "unreadable")
    due_at = timetable.newest_until(at)
    word = _schedule_word(schedule, seen, due_at, at=at)
    return ScheduleState(schedule, due_at, timetable.next_after(at), seen, word)


def _schedule_word(
    schedule: ExpectedSchedule, seen: Plan | None, due_at: datetime | None, *, at: datetime
) -> str:
    if schedule.missed_count:
        return "absent"
    if due_at is not None and seen is not None and seen.registered_at >= due_at - EARLY:
        return "in_time"
    if due_at is None or due_at <= schedule.judged_until:
        # Nothing was due since somebody began to wait for it.
        return "not_due_yet"
    return "awaited" if at < due_at + timedelta(minutes=schedule.grace_minutes) else "overdue"


def _shown(digest: str) -> str:
    """Return what was asked for, fit for a sentence: a query may hold anything."""
    return digest if digest.isascii() and digest.isprintable() else ascii(digest)


def _plans() -> QuerySet[Plan]:
    return Plan.objects.select_related("project", "policy").defer("document")


def _behind_inputs() -> QuerySet[Plan]:
    """Select the plans whose newest conclusion is behind their inputs: every open one is."""
    return Plan.objects.filter(concluded_version__lt=F("inputs_version"))


def _open_plans() -> QuerySet[Plan]:
    # Through the index of those behind their inputs: states have none.
    states = [PlanState.REGISTERED, PlanState.RUNNING]
    return _behind_inputs().filter(state__in=states, cancelled_at__isnull=True)


def _is_finished(at: datetime) -> Q:
    return Q(closed_at__isnull=False) | Q(deadline_at__lte=at) | _all_sealed()


def _all_sealed() -> Q:
    newest = Attempt.objects.filter(lane=OuterRef("pk")).order_by("-number").values("state")[:1]
    lanes = Lane.objects.filter(plan=OuterRef("pk")).annotate(newest=Subquery(newest))
    unsealed = lanes.filter(Q(newest__isnull=True) | ~Q(newest=AttemptState.SEALED))
    is_gating = Exists(lanes.filter(is_required=True))
    # A plan of advisory lanes alone is finished when all of them are.
    return Q(is_gating, ~Exists(unsealed.filter(is_required=True))) | Q(
        ~is_gating, ~Exists(unsealed)
    )


@lru_cache(maxsize=32)
def _plan_with_digest(digest: str) -> plan_documents.Plan:
    text = Plan.objects.values_list("document", flat=True).get(digest=digest)
    return parse_document(plan_documents.Plan, text)


@lru_cache(maxsize=32)
def _policy_with_digest(digest: str) -> Policy:
    # The same policy may be registered in two projects: one digest, one content.
    texts = PolicyVersion.objects.filter(digest=digest).values_list("document", flat=True)
    return parse_document(Policy, texts[0])
