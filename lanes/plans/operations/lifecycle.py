"""The life of a plan after its registration: inputs change, it is closed, concluded, opened again."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Case, F, PositiveIntegerField, Value, When
from django.db.models.functions import Coalesce

from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.errors import DomainError
from lanes.budget.operations import money as budget_operations
from lanes.fidelity import operations as fidelity_operations
from lanes.fidelity.operations import ProbedPlan
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, Plan, PlanState
from lanes.projects.operations import audit


class PlanCancelledError(DomainError):
    """Cancelling is final: what comes next is another plan."""

    status = 409
    code = "plan-cancelled"
    fix = "Run the whole workflow again, not the lanes alone: `evalhub plan build` then makes a new plan."

    def __init__(self, plan: Plan) -> None:
        why = f": {plan.cancel_reason.rstrip('.')}" if plan.cancel_reason else ""
        super().__init__(
            f"Plan {plan.digest} was cancelled at {plan.cancelled_at:%Y-%m-%d %H:%M} UTC{why}."
        )


class NothingToReopenError(DomainError):
    """All that a plan waits for is there: waiting longer would change nothing."""

    status = 409
    code = "nothing-to-reopen"
    fix = "Run a lane again where it was registered: its new attempt has the plan run again by itself."


@transaction.atomic(savepoint=False)
def bump_inputs(plan: Plan, *, at: datetime, late: bool = False) -> None:
    """Note that something changed which can alter the plan's conclusion.

    To be called inside the transaction of the change. With `late`, for evidence that counts: a
    concluded plan runs again, in its next generation.
    """
    usual = Plan.objects.filter(pk=plan.pk, behind_since__isnull=False)
    if usual.exclude(state=PlanState.CONCLUDED).update(inputs_version=F("inputs_version") + 1):
        # Each segment comes by here, and what follows costs several times as much.
        return
    inputs = {
        "inputs_version": F("inputs_version") + 1,
        "behind_since": Coalesce("behind_since", at),
    }
    if not late:
        Plan.objects.filter(pk=plan.pk).update(**inputs)
        return
    is_concluded = When(state=PlanState.CONCLUDED, then=Value(PlanState.RUNNING))
    is_next = When(state=PlanState.CONCLUDED, then=F("generation") + 1)
    Plan.objects.filter(pk=plan.pk).update(
        **inputs,
        state=Case(is_concluded, default=F("state")),
        generation=Case(is_next, default=F("generation"), output_field=PositiveIntegerField()),
    )
    if plan.state == PlanState.CONCLUDED:
        enqueue_on_commit(TaskName.REFRESH_CHECK, plan_id=plan.pk)


@transaction.atomic
def close_plan(plan: Plan, *, at: datetime, actor: str = audit.SYSTEM) -> None:
    """Have the plan decided now, with what is there. Closing it again asks once more.

    Raises:
        PlanCancelledError: if the plan was cancelled.
    """
    refuse_cancelled(plan)
    if Plan.objects.filter(pk=plan.pk, closed_at__isnull=True).update(closed_at=at):
        bump_inputs(plan, at=at)
        audit.record_audit(
            plan.project, actor=actor, action="plan.close", subject=plan.digest, at=at
        )
    plan.refresh_from_db(fields=["closed_at", "inputs_version"])
    enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)


@transaction.atomic
def reopen_plan(plan: Plan, *, at: datetime, actor: str = audit.SYSTEM) -> None:
    """Wait again for the lanes of a plan that was closed or is overdue, until a new deadline.

    A plan that still waits is left as it is. Lanes that were told to stop have to be run again.

    Raises:
        PlanCancelledError: if the plan was cancelled.
        NothingToReopenError: if its required lanes are sealed, or if it was imported.
    """
    if plan.is_foreign:
        raise NothingToReopenError(
            f"Plan {plan.digest} was imported: none of its lanes can run here."
        )
    accepting = Attempt.objects.filter(
        lane__plan=plan, state__in=[AttemptState.OPEN, AttemptState.SILENT]
    )
    for lane in accepting.order_by("lane_id").values_list("lane__name", flat=True):
        budget_operations.reopen(plan.digest, lane)
    row = Plan.objects.select_for_update(no_key=True).defer("document").get(pk=plan.pk)
    refuse_cancelled(row)
    if queries.are_lanes_sealed(row):
        raise NothingToReopenError(
            f"The newest attempt of every required lane of plan {plan.digest} is sealed."
        )
    if not queries.is_finished(row, at=at):
        return
    minutes = queries.plan_document(plan).deadline_minutes
    is_concluded = row.state == PlanState.CONCLUDED
    Plan.objects.filter(pk=plan.pk).update(
        closed_at=None,
        deadline_at=at + timedelta(minutes=minutes),
        state=PlanState.RUNNING if is_concluded else F("state"),
        generation=F("generation") + int(is_concluded),
    )
    bump_inputs(plan, at=at)
    plan.refresh_from_db(fields=["closed_at", "deadline_at", "state", "generation"])
    audit.record_audit(plan.project, actor=actor, action="plan.reopen", subject=plan.digest, at=at)
    enqueue_on_commit(TaskName.REFRESH_CHECK, plan_id=plan.pk)


def refuse_cancelled(plan: Plan) -> None:
    """Return if a plan was not cancelled, looking at its row; it stays locked until the end.

    Raises:
        PlanCancelledError: if it was.
    """
    row = Plan.objects.select_for_update(no_key=True).defer("document").get(pk=plan.pk)
    if row.cancelled_at is not None:
        raise PlanCancelledError(row)


@transaction.atomic
def settle_cancelled(plan: Plan, *, inputs_version: int) -> bool:
    """Say that the check has seen a cancelled plan with these inputs; False if they moved.

    From then on no sweep looks for it, until something arrives for it.
    """
    seen = Plan.objects.filter(
        pk=plan.pk, cancelled_at__isnull=False, inputs_version=inputs_version
    )
    return bool(
        seen.update(
            concluded_version=inputs_version, conclusion_version=inputs_version, behind_since=None
        )
    )


@transaction.atomic
def mark_concluded(
    plan: Plan, *, inputs_version: int, at: datetime, beside: Collection[int] = ()
) -> bool:
    """Say that the plan was concluded on these inputs; False, and nothing changed, if they moved.

    To be called first in the transaction that stores the conclusion. Judge money that the lanes did
    not spend goes back to its pools, and what its probes found is weighed. `beside` are the keys of
    other plans that the same transaction is going to change: rows of plans are locked by key.
    """
    budget_operations.hold(plan.digest)
    if beside:
        _hold_plans({plan.pk, *beside})
    unmoved = Plan.objects.filter(pk=plan.pk, inputs_version=inputs_version)
    if not unmoved.update(
        state=PlanState.CONCLUDED,
        concluded_at=at,
        concluded_version=inputs_version,
        behind_since=None,
    ):
        return False
    budget_operations.release(plan.digest, at=at)
    _weigh_probes(plan, at=at)
    return True


@transaction.atomic
def bump_others(plan_ids: Collection[int], *, at: datetime) -> None:
    """Have concluded plans concluded anew: something outside of them changed that they rest on."""
    _hold_plans(plan_ids)
    concluded = Plan.objects.filter(
        pk__in=plan_ids, state=PlanState.CONCLUDED, cancelled_at__isnull=True
    )
    concluded.update(
        inputs_version=F("inputs_version") + 1, behind_since=Coalesce("behind_since", at)
    )
    for plan_id in sorted(plan_ids):
        enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan_id)


def _hold_plans(plan_ids: Collection[int]) -> None:
    """Lock several plans, everywhere in the same order, so that no two wait for each other."""
    rows = Plan.objects.filter(pk__in=plan_ids).order_by("pk").select_for_update(no_key=True)
    list(rows.values_list("pk", flat=True))


def note_conclusion(plan: Plan, word: str | None, *, inputs_version: int) -> None:
    """Keep the word of the plan's newest conclusion with the plan, where plans are found by it."""
    Plan.objects.filter(pk=plan.pk, concluded_version=inputs_version).update(
        conclusion=word, conclusion_version=inputs_version
    )


def _weigh_probes(plan: Plan, *, at: datetime) -> None:
    environment = queries.policy_document(plan.policy).environment
    probed = ProbedPlan(
        plan.project,
        plan.suite_name,
        plan.digest,
        plan.registered_at,
        environment.minimum_match_rate,
    )
    fidelity_operations.weigh_plan(probed, at=at)
