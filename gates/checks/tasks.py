"""Tasks: conclude, refresh, and the sweeps that find what a lost message left undone."""

# Loaded where the worker starts, not when each of its processes first decides something.
import scipy.stats  # noqa: F401
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from evalhub.tasks.app import app
from evalhub.tasks.clock_jumps import was_set_back
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.tasks.sweeps import sweep
from evalhub.web import logs
from evidence.store.models import StorageOperation
from evidence.store.operations import faults
from evidence.store.storage import StorageUnavailableError
from gates.checks import queries
from gates.checks.operations import clock_jumps, concluding, delivery, issues
from gates.decisions import queries as decisions
from gates.decisions.operations import words
from lanes.projects.queries import deliveries as delivery_queries

# One after the other, as GitHub asks for; the next sweep goes on.
_DELIVERIES_PER_SWEEP = 50
# GitHub takes some 80 comments a minute; the next sweep goes on.
_STEPS_PER_TASK = 20
_DATABASE_AWAY = (OperationalError, InterfaceError)


@app.task(
    name=TaskName.CONCLUDE_PLAN.value,
    autoretry_for=(*_DATABASE_AWAY, StorageUnavailableError),
    retry_backoff=1,
    max_retries=3,
)
@faults.noted(StorageOperation.CONCLUDE, clock=timezone.now)
def conclude_plan(*, plan_id: int) -> None:
    """Conclude one plan and deliver its check. Safe to repeat."""
    plan = queries.plan_with_id(plan_id)
    logs.bind_plan(plan.digest)
    concluding.conclude_plan(plan, at=timezone.now())


@app.task(
    name=TaskName.REFRESH_CHECK.value,
    autoretry_for=_DATABASE_AWAY,
    retry_backoff=1,
    max_retries=3,
)
def refresh_check(*, plan_id: int) -> None:
    """Bring the check of one plan's commit up to date and deliver it. Safe to repeat."""
    plan = queries.plan_with_id(plan_id)
    logs.bind_plan(plan.digest)
    concluding.refresh_check(plan, at=timezone.now())


@sweep(TaskName.SWEEP_CONCLUSIONS)
def sweep_conclusions() -> None:
    """Ask for the conclusion of every finished plan that lacks one for its newest inputs.

    Also finds plans that an earlier release has concluded meanwhile, without noting the word.
    """
    # A task each: one that fails keeps none of the others waiting.
    for plan in decisions.unconcluded_plans(at=timezone.now()):
        enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)
    words.copy_newer_words()


@sweep(TaskName.SWEEP_CHECKS)
def sweep_checks() -> None:
    """Ask for every check that lags behind its plans, and deliver those that are due."""
    if was_set_back(TaskName.SWEEP_CHECKS, at=timezone.now()):
        clock_jumps.bring_back_checks(at=timezone.now())
    for plan in queries.lagging_plans():
        enqueue_on_commit(TaskName.REFRESH_CHECK, plan_id=plan.pk)
    for check in queries.due_checks(at=timezone.now())[:_DELIVERIES_PER_SWEEP]:
        delivery.deliver_check(check, at=timezone.now())


@app.task(name=TaskName.SEND_ISSUE_NOTICES.value)
def send_issue_notices(*, channel_id: int) -> None:
    """Bring the rolling issues of one project up to date. Safe to repeat."""
    channel = delivery_queries.channel_with_id(channel_id)
    for _ in range(_STEPS_PER_TASK):
        if not issues.take_step(channel, at=timezone.now()):
            break


@sweep(TaskName.SWEEP_ISSUE_NOTICES)
def sweep_issue_notices() -> None:
    """Ask for every rolling issue that lacks a comment or shows what is no longer so. Safe to repeat."""
    for channel in queries.issue_channels_with_work(at=timezone.now()):
        enqueue_on_commit(TaskName.SEND_ISSUE_NOTICES, channel_id=channel.pk)
