"""Cancelling a plan that nobody waits for any more: a dequeued merge group, a closed pull request."""

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.errors import DomainError
from lanes.budget.operations import money as budget_operations
from lanes.plans.models import Attempt, AttemptState, Lane, Plan, PlanState
from lanes.projects.operations import audit

_LONGEST_REASON = 300


class PlanConcludedError(DomainError):
    """What was decided is not undone by cancelling it."""

    status = 409
    code = "plan-concluded"
    fix = "Its conclusion stands. `evalhub plan close` tells lanes that still work to stop."


@transaction.atomic
def cancel_plan(plan: Plan, *, reason: str, at: datetime, actor: str = audit.SYSTEM) -> bool:
    """Cancel a plan that is not concluded; return whether it was not cancelled before.

    Its lanes are told to stop, their attempts end, judge money that is not spent goes back, and its
    check completes as cancelled. What had arrived stays and counts where runs are pooled, so that
    nobody gets rid of a bad run by it; what arrives later is refused as stale. It is final.

    Raises:
        PlanConcludedError: if the plan is concluded.
    """
    # In the order of all operations: money, lanes, attempts, the plan last. The lanes hold those
    # back who are about to open an attempt: they would not find the plan cancelled yet.
    budget_operations.hold(plan.digest)
    lanes = Lane.objects.select_for_update(no_key=True).filter(plan=plan).order_by("pk")
    list(lanes.values_list("pk", flat=True))
    running = Attempt.objects.filter(
        lane__plan=plan, state__in=[AttemptState.OPEN, AttemptState.SILENT]
    )
    running.update(state=AttemptState.CANCELLED, ended_at=at)
    row = Plan.objects.select_for_update(no_key=True).defer("document").get(pk=plan.pk)
    if row.cancelled_at is not None:
        return False
    if row.state == PlanState.CONCLUDED:
        # The attempts go on: this undoes the update above.
        raise PlanConcludedError(
            f"Plan {plan.digest} was concluded at {row.concluded_at:%Y-%m-%d %H:%M} UTC; there is"
            " nothing left to cancel."
        )
    Plan.objects.filter(pk=plan.pk).update(
        cancelled_at=at,
        cancelled_by=actor[:200],
        cancel_reason=reason[:_LONGEST_REASON],
        inputs_version=F("inputs_version") + 1,
        behind_since=Coalesce("behind_since", at),
    )
    plan.refresh_from_db(fields=["cancelled_at", "cancelled_by", "cancel_reason", "inputs_version"])
    budget_operations.release(plan.digest, at=at)
    audit.record_audit(
        plan.project,
        actor=actor,
        action="plan.cancel",
        subject=plan.digest,
        after={"reason": reason},
        at=at,
    )
    enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)
    return True
