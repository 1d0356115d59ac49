"""CI jobs and the lanes that they are bound to: one lane for a job, one job for a lane, in each run attempt."""

from datetime import datetime

from django.db import IntegrityError, transaction

from evalhub.protocol.identity import VerifiedSource, source_refusals
from evalhub.web.errors import DomainError
from lanes.plans import queries
from lanes.plans.models import Attempt, JobBinding, Lane, Plan
from lanes.plans.operations import attempts
from lanes.plans.operations.attempts import BegunAttempt, LaneToken
from lanes.projects.models import Token
from lanes.projects.queries import actors

_FIX_LANE = "Give each lane a job of its own. To run a lane again, re-run its job: that is another run attempt."


class NotOwnPlanError(DomainError):
    """A CI job asked for a plan of another workflow run, commit or ref."""

    status = 403
    code = "not-own-plan"
    fix = "Use the plan that was registered in this workflow run."


class JobBoundError(DomainError):
    """This job speaks for another lane in this run attempt."""

    status = 403
    code = "job-bound"
    fix = _FIX_LANE


class LaneBoundError(DomainError):
    """Another job speaks for this lane in this run attempt."""

    status = 403
    code = "lane-bound"
    fix = _FIX_LANE


@transaction.atomic
def begin_attempt(plan: Plan, lane_name: str, *, token: Token, at: datetime) -> BegunAttempt:
    """Open an attempt of a lane with its lane token; a CI job is bound to the lane by that.

    Raises:
        NotOwnPlanError, JobBoundError, LaneBoundError: if the token's job may not open this lane.
        NotFoundError, PlanCancelledError, PlanForeignError: as `attempts.open_attempt`.
    """
    source = token.verified_source
    if source is not None:
        _bind(queries.lane_named(plan, lane_name), plan, source, at=at)
    return attempts.begin_attempt(
        plan, lane_name, actor=actors.actor_of_token(token), opened_with=token, at=at
    )


@transaction.atomic
def renew_lane_token(attempt: Attempt, *, token: Token, at: datetime) -> LaneToken:
    """Issue a fresh lane token, also for uploads after the end; to a CI job only of its own lane.

    Raises:
        NotOwnPlanError, JobBoundError, LaneBoundError: if the attempt is not of the token's job.
    """
    source = token.verified_source
    if source is not None and token.attempt is None:
        _bind(attempt.lane, attempt.lane.plan, source, at=at)
    return attempts.issue_lane_token(
        attempt, actor=actors.actor_of_token(token), opened_with=token, at=at
    )


def require_own_plan(plan: Plan, token: Token) -> None:
    """Return if a token may act on a plan: a CI job's only if the plan is of its own workflow run.

    Raises:
        NotOwnPlanError: otherwise, naming what differs.
    """
    source = token.verified_source
    if source is not None:
        _require_same_source(plan, source)


def _require_same_source(plan: Plan, source: VerifiedSource) -> None:
    refusals = list(source_refusals(queries.plan_document(plan), source))
    if refusals:
        differences = "; ".join(f"{r.pointer} is {r.got}; expected {r.expected}" for r in refusals)
        raise NotOwnPlanError(f"Plan {plan.digest} is not of this CI job: {differences}.")


def _bind(lane: Lane, plan: Plan, source: VerifiedSource, *, at: datetime) -> None:
    """Bind a CI job to a lane at its first use; of two at once the constraints let one through."""
    _require_same_source(plan, source)
    run = {
        "repository_id": source.repository_id,
        "workflow_run_id": source.workflow_run_id,
        "run_attempt": source.run_attempt,
    }
    in_run = JobBinding.objects.filter(**run).select_related("lane")
    if in_run.filter(lane=lane, job=source.job).exists():
        return
    try:
        with transaction.atomic():
            JobBinding.objects.create(lane=lane, job=source.job, bound_at=at, **run)
    except IntegrityError:
        of_job, of_lane = in_run.filter(job=source.job).first(), in_run.filter(lane=lane).first()
        if of_job is not None and of_job.lane_id == lane.pk:
            # The same job twice at once.
            return
        raise _bound_otherwise(lane, source, of_job=of_job, of_lane=of_lane) from None


def _bound_otherwise(
    lane: Lane,
    source: VerifiedSource,
    *,
    of_job: JobBinding | None,
    of_lane: JobBinding | None,
) -> DomainError:
    when = f"attempt {source.run_attempt} of workflow run {source.workflow_run_id}"
    if of_job is not None:
        return JobBoundError(
            f"Job {source.job} speaks for lane {of_job.lane.name} in {when}, so not for {lane.name}."
        )
    job = "another job" if of_lane is None else f"job {of_lane.job}"
    return LaneBoundError(
        f"Lane {lane.name} is spoken for by {job} in {when}, so not by job {source.job}."
    )
