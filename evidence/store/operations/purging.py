"""Purging: a maintainer removes bytes for good. Rows, receipts and tombstones stay and say so."""

from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q

from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.tombstones import Cause, RemovalScope
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.errors import DomainError, NotFoundError
from evidence.store.models import Item, Pin, Refusal, Removal, Run, Segment
from evidence.store.operations import removals
from evidence.store.operations.removals import Stock, Sums, Why
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import lifecycle as lifecycle_operations
from lanes.plans.operations import purging as plans_purging
from lanes.projects.operations import audit


class NothingToPurgeError(DomainError):
    status = 409
    code = "nothing-to-purge"
    fix = "Look at what was removed of the plan already: it is listed with the project's storage."


class PlanPinnedError(DomainError):
    status = 409
    code = "plan-pinned"
    fix = (
        "Purge it all the same with `even_pinned` (`--even-pinned` at the command line) if its bytes must"
        " go; its scores stay."
    )


class Target(NamedTuple):
    """What of a plan is to go, in whole segments: evidence of others in these goes with it."""

    plan: Plan
    scope: RemovalScope
    subject: str
    stock: Stock


class Preview(NamedTuple):
    """What a purge would remove."""

    target: Target
    sums: Sums
    runs: int
    """Runs of which evidence goes, those included that only share a segment."""
    records: int
    """Segments of class record: without them no verdict can be recomputed from its evidence."""
    pins: list[str]
    """Why the plan is needed."""


def whole_plan(plan: Plan) -> Target:
    """Aim at everything of a plan."""
    segments = Segment.objects.filter(attempt__lane__plan=plan)
    stock = Stock(segments, removals.whole_segments_refused(plan))
    return Target(plan, RemovalScope.PLAN, "", stock)


def one_attempt(plan: Plan, attempt_key: str) -> Target:
    """Aim at what came of one attempt so far.

    Raises:
        NotFoundError: if the plan has no such attempt.
    """
    attempt = _attempt(plan, attempt_key)
    stock = Stock(
        Segment.objects.filter(attempt=attempt),
        removals.whole_segments_refused(plan).filter(attempt=attempt),
    )
    return Target(plan, RemovalScope.ATTEMPT, attempt.key, stock)


def one_segment(plan: Plan, attempt_key: str, seq: int) -> Target:
    """Aim at one segment of an attempt, and at what was refused as a whole under its seq.

    Raises:
        NotFoundError: if the plan has no such attempt.
    """
    attempt = _attempt(plan, attempt_key)
    refused = removals.whole_segments_refused(plan).filter(
        attempt=attempt, object_key__contains=f"/{attempt.key}/{seq}-"
    )
    stock = Stock(Segment.objects.filter(attempt=attempt, seq=seq), refused)
    return Target(plan, RemovalScope.SEGMENT, f"{attempt.key}/{seq}", stock)


def one_run(run: Run) -> Target:
    """Aim at every segment that holds evidence of a run, refused or not."""
    folder = run_folder(RunKey(run.scenario, run.arm, run.epoch))
    refused = Refusal.objects.filter(
        attempt=run.attempt, segment__isnull=False, path__startswith=f"{folder}/"
    )
    segments = Segment.objects.filter(
        Q(pk__in=Item.objects.filter(run=run).values("segment"))
        | Q(pk__in=refused.values("segment"))
    )
    subject = f"{run.scenario}/{run.arm}/{run.epoch} of {run.attempt.key}"
    stock = Stock(segments, Refusal.objects.none())
    return Target(run.plan, RemovalScope.RUN, subject[:500], stock)


def preview(target: Target) -> Preview:
    """Return what a purge would remove, without removing it."""
    kept = target.stock.kept()
    touched = Item.objects.filter(segment__in=kept.segments, run__isnull=False)
    return Preview(
        target,
        kept.sums(),
        touched.values("run").distinct().count(),
        kept.segments.filter(segment_class="record").count(),
        [f"{pin.holder}: {pin.reason}" for pin in Pin.objects.filter(plan=target.plan)],
    )


@transaction.atomic
def purge(
    target: Target, *, reason: str, even_pinned: bool = False, actor: str, at: datetime
) -> Removal:
    """Order the bytes away, on the word of a maintainer; recorded in the audit.

    From now on nobody is given them; a sweep removes them within seconds. A purged plan takes no
    evidence any more, and its running attempts end.

    Raises:
        PlanPinnedError: if somebody needs the plan, unless `even_pinned`.
        NothingToPurgeError: if all of it was ordered away before.
    """
    plan = target.plan
    if target.scope is RemovalScope.PLAN:
        # First, as everywhere lanes and attempts come before the plan: nobody opens another one now.
        plans_purging.end_attempts(plan, at=at)
    needed = Pin.objects.filter(plan=plan).values_list("holder", "reason").order_by("pk")
    if needed and not even_pinned:
        holders = "; ".join(f"{holder}: {why}" for holder, why in needed)
        raise PlanPinnedError(f"Plan {plan.digest} is pinned ({holders}).")
    is_record = target.stock.kept().segments.filter(segment_class="record").exists()
    why = Why(Cause.PURGE, target.scope, target.subject, actor[:200], reason)
    is_repeated = Removal.objects.filter(
        plan=plan, scope=RemovalScope.PLAN, cause=Cause.PURGE
    ).exists()
    removal = None if is_repeated else removals.order_removal(plan, target.stock, why, at=at)
    if removal is None:
        raise NothingToPurgeError(
            f"Nothing of {target.subject or plan.digest} is left that could be purged."
        )
    audit.record_audit(
        plan.project,
        actor=actor,
        action="evidence.purge",
        subject=f"{plan.digest} {target.subject}".strip(),
        before={"segments": removal.segments, "size_bytes": removal.size_bytes},
        after={"removal": removal.key, "scope": target.scope.value, "reason": reason},
        at=at,
    )
    if is_record or target.scope is RemovalScope.PLAN:
        # The plan's conclusion is to say that it cannot be recomputed from its evidence.
        lifecycle_operations.bump_inputs(plan, at=at)
        enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)
    enqueue_on_commit(TaskName.SWEEP_REMOVALS)
    return removal


def _attempt(plan: Plan, key: str) -> Attempt:
    attempt = Attempt.objects.filter(lane__plan=plan, key=key).first()
    if attempt is None:
        raise NotFoundError(f"Plan {plan.digest} has no attempt {key!r}.")
    return attempt
