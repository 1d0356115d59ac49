"""Attempts: opening one, hearing from it, sealing it."""

import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Greatest, Least

from evalhub.protocol.messages import Heartbeat, HeartbeatAnswer
from evalhub.tasks.clock_jumps import CLOCK_SKEW
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.errors import DomainError
from lanes.budget import queries as budget_queries
from lanes.budget.models import SubAllocation
from lanes.budget.operations import money as budget_operations
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Lane, Plan, PlanState
from lanes.plans.operations import lifecycle
from lanes.plans.operations.registration import PlanForeignError
from lanes.projects.models import Scope, Token
from lanes.projects.operations import audit, tokens

SILENT_AFTER_HEARTBEATS = 3
_ACCEPTING = (AttemptState.OPEN, AttemptState.SILENT)
_GONE = (AttemptState.SUPERSEDED, AttemptState.CANCELLED)


class AttemptEndedError(DomainError):
    status = 409
    code = "attempt-ended"
    fix = "Open a new attempt of the lane."


class LaneToken(NamedTuple):
    """The secret that a lane writes with, and until when."""

    secret: str
    expires_at: datetime


class BegunAttempt(NamedTuple):
    """A new attempt and the token of its lane."""

    attempt: Attempt
    lane_token: LaneToken


@transaction.atomic
def begin_attempt(
    plan: Plan,
    lane_name: str,
    *,
    at: datetime,
    actor: str = audit.SYSTEM,
    opened_with: Token | None = None,
) -> BegunAttempt:
    """Open an attempt together with its lane token.

    Raises:
        NotFoundError, PlanCancelledError: as `open_attempt`.
    """
    attempt = open_attempt(plan, lane_name, at=at)
    lane_token = issue_lane_token(attempt, at=at, actor=actor, opened_with=opened_with)
    return BegunAttempt(attempt, lane_token)


@transaction.atomic
def open_attempt(plan: Plan, lane_name: str, *, at: datetime) -> Attempt:
    """Open the next attempt of a lane; it supersedes the lane's earlier one, sealed or not.

    What an earlier attempt delivered stays. A concluded plan runs again, with a new deadline.

    Raises:
        NotFoundError: if the plan has no lane of that name.
        PlanCancelledError: if the plan was cancelled.
        PlanForeignError: if the plan was imported.
    """
    if plan.is_foreign:
        raise PlanForeignError(f"Plan {plan.digest} was imported: its lanes ran elsewhere.")
    lane = queries.lane_named(plan, lane_name)
    budget_operations.reopen(plan.digest, lane.name)
    # Two opened at once get numbers 1 and 2, and the later supersedes the earlier.
    lane = Lane.objects.select_for_update(no_key=True).get(pk=lane.pk)
    earlier = Attempt.objects.filter(lane=lane)
    newest = earlier.order_by("-number").values_list("number", flat=True).first()
    earlier.exclude(state__in=_GONE).update(
        state=AttemptState.SUPERSEDED, ended_at=Coalesce(F("ended_at"), at)
    )
    attempt = Attempt.objects.create(
        lane=lane,
        key=f"att_{secrets.token_urlsafe(18)}",
        number=(newest or 0) + 1,
        opened_at=at,
        last_heard_at=at,
    )
    # After the attempts: every operation touches the plan's row last, so that none blocks another.
    run_again(plan, at=at)
    enqueue_on_commit(TaskName.REFRESH_CHECK, plan_id=plan.pk)
    return queries.attempt_with_key(attempt.key)


@transaction.atomic
def issue_lane_token(
    attempt: Attempt,
    *,
    at: datetime,
    actor: str = audit.SYSTEM,
    opened_with: Token | None = None,
) -> LaneToken:
    """Issue a token that writes to this attempt alone, also for uploads after its end.

    It is of the same CI job as the token that it is asked for with, if that is of one.
    """
    expires_at = at + timedelta(seconds=settings.LANE_TOKEN_SECONDS)
    issued = tokens.issue_token(
        attempt.lane.plan.project,
        name=f"lane {attempt.lane.name} #{attempt.number}",
        scopes=[Scope.LANE_WRITE],
        attempt=attempt.key,
        identity=tokens.identity_of(opened_with),
        expires_at=expires_at,
        actor=actor,
        at=at,
    )
    return LaneToken(issued.secret, expires_at)


@transaction.atomic
def record_heartbeat(attempt: Attempt, heartbeat: Heartbeat, *, at: datetime) -> HeartbeatAnswer:
    """Note how far a lane is, and say whether it should go on."""
    Attempt.objects.filter(pk=attempt.pk).update(
        phase=heartbeat.phase, done=heartbeat.done, total=heartbeat.total
    )
    touch_attempt(attempt, at=at)
    reason = _reason_to_stop(queries.attempt_with_key(attempt.key))
    return HeartbeatAnswer(
        do="continue" if reason is None else "stop",
        reason=reason,
        next_seconds=settings.HEARTBEAT_SECONDS,
    )


def touch_attempt(attempt: Attempt, *, at: datetime) -> None:
    """Note that the lane was heard; a silent attempt is open again."""
    usual = Attempt.objects.filter(pk=attempt.pk, last_heard_at__lte=at)
    if usual.exclude(state=AttemptState.SILENT).update(last_heard_at=at):
        # Each segment comes by here, and what follows costs several times as much.
        return
    Attempt.objects.filter(pk=attempt.pk).update(**_heard(at))
    silent = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.SILENT)
    if silent.update(state=AttemptState.OPEN):
        # Whoever reads the conclusion sees which lanes are silent.
        lifecycle.bump_inputs(attempt.lane.plan, at=at)


@transaction.atomic
def seal_attempt(attempt: Attempt, *, at: datetime) -> bool:
    """Seal an attempt and say whether it is sealed now; sealing it again changes nothing.

    A superseded or cancelled attempt stays what it is. The last seal of a plan has it concluded.
    """
    accepting = Attempt.objects.filter(pk=attempt.pk, state__in=_ACCEPTING)
    has_changed = accepting.update(state=AttemptState.SEALED, ended_at=at, **_heard(at))
    attempt.refresh_from_db(fields=["state", "ended_at", "last_heard_at"])
    plan = attempt.lane.plan
    if has_changed:
        # First: the plan's row makes two last lanes wait for each other, so that one sees both.
        lifecycle.bump_inputs(plan, at=at)
        if queries.is_finished(plan, at=at):
            enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)
    return attempt.state == AttemptState.SEALED


@transaction.atomic
def extend_budget(attempt: Attempt, *, microusd: int, at: datetime) -> SubAllocation:
    """Give the lane of a running attempt more judge money.

    Raises:
        AttemptEndedError: if the attempt was sealed, superseded or cancelled: it may not spend more.
        BudgetExhaustedError: if the pool has less left, or the lane was planned without one.
    """
    if not attempt.accepts_evidence:
        raise AttemptEndedError(
            f"Attempt {attempt.key} is {attempt.state.lower()} and gets no more judge money."
        )
    lane = attempt.lane
    return budget_operations.extend(lane.plan.digest, lane.name, microusd=microusd, at=at)


def _heard(at: datetime) -> dict[str, Combinable]:
    """Return the columns of an attempt that is heard now.

    A request may be late, so the latest time stands, unless it lies in the future: then this server's
    clock was set back, and what it had shown is kept for the stamps of segments.
    """
    is_ahead = Q(last_heard_at__gt=at + CLOCK_SKEW)
    return {
        "clock_ahead_until": Case(
            When(is_ahead, then=F("last_heard_at")), default=F("clock_ahead_until")
        ),
        "opened_at": Case(When(is_ahead, then=Least(F("opened_at"), at)), default=F("opened_at")),
        "last_heard_at": Case(
            When(is_ahead, then=Value(at)), default=Greatest(F("last_heard_at"), at)
        ),
    }


def mark_silent_attempts(*, at: datetime) -> int:
    """Mark open attempts that missed three heartbeats as silent; return how many.

    Those that were heard in the future count as heard now.
    """
    ahead = Attempt.objects.filter(state=AttemptState.OPEN, last_heard_at__gt=at + CLOCK_SKEW)
    ahead.update(**_heard(at))
    limit = timedelta(seconds=SILENT_AFTER_HEARTBEATS * settings.HEARTBEAT_SECONDS)
    unheard = Attempt.objects.filter(state=AttemptState.OPEN, last_heard_at__lt=at - limit)
    plan_ids = sorted(set(unheard.values_list("lane__plan", flat=True)))
    return sum(_mark_silent(unheard, plan_id, at=at) for plan_id in plan_ids)


@transaction.atomic
def _mark_silent(unheard: QuerySet[Attempt], plan_id: int, *, at: datetime) -> int:
    count = unheard.filter(lane__plan=plan_id).update(state=AttemptState.SILENT)
    if count:
        lifecycle.bump_inputs(Plan.objects.defer("document").get(pk=plan_id), at=at)
    return count


def run_again(plan: Plan, *, at: datetime) -> None:
    """Bring a plan whose lane begins into the state RUNNING, and count the change."""
    row = Plan.objects.select_for_update(no_key=True).defer("document").get(pk=plan.pk)
    if row.cancelled_at is not None:
        raise lifecycle.PlanCancelledError(row)
    changed: dict[str, object] = {
        "state": PlanState.RUNNING,
        "inputs_version": F("inputs_version") + 1,
        "behind_since": Coalesce("behind_since", at),
    }
    if row.state == PlanState.CONCLUDED:
        changed["generation"] = F("generation") + 1
    if row.state == PlanState.CONCLUDED or row.closed_at is not None or row.deadline_at <= at:
        # Else the plan would be decided again at once, before the new attempt has delivered.
        minutes = queries.plan_document(plan).deadline_minutes
        changed |= {"deadline_at": at + timedelta(minutes=minutes), "closed_at": None}
    Plan.objects.filter(pk=plan.pk).update(**changed)
    plan.refresh_from_db(fields=[*changed])


def _reason_to_stop(attempt: Attempt) -> str | None:
    plan = attempt.lane.plan
    if not attempt.accepts_evidence:
        return str(attempt.state).lower()
    if plan.cancelled_at is not None:
        return "cancelled"
    # On a branch every commit is worth finishing: its evidence serves baselines. On a pull request
    # nobody will look at the old head any more.
    if plan.superseded_at is not None and plan.pull_request is not None:
        return "superseded"
    if plan.closed_at is not None:
        return "closed"
    allocation = budget_queries.allocation_of(plan.digest, attempt.lane.name)
    if allocation is not None and allocation.spent_microusd >= allocation.limit_microusd:
        return "budget"
    return None
