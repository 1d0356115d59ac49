"""The life of a plan after its registration: inputs change, it is closed, concluded, runs again."""

from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, PositiveIntegerField, Value, When
from django.db.models.functions import Coalesce

from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from lanes.budget.operations import money as budget_operations
from lanes.fidelity import operations as fidelity_operations
from lanes.fidelity.operations import ProbedPlan
from lanes.plans import queries
from lanes.plans.models import Plan, PlanState
from lanes.projects.operations import audit


@transaction.atomic
def bump_inputs(plan: Plan, *, at: datetime, late: bool = False) -> None:
    """Note that something changed which can alter the plan's conclusion.

    To be called inside the transaction of the change. With `late`, for evidence that counts: a
    concluded plan runs again, in its next generation.
    """
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
    """Have the plan decided now, with what is there. Closing it again asks once more."""
    if Plan.objects.filter(pk=plan.pk, closed_at__isnull=True).update(closed_at=at):
        bump_inputs(plan, at=at)
        audit.record_audit(
            plan.project, actor=actor, action="plan.close", subject=plan.digest, at=at
        )
    plan.refresh_from_db(fields=["closed_at", "inputs_version"])
    enqueue_on_commit(TaskName.CONCLUDE_PLAN, plan_id=plan.pk)


@transaction.atomic
def mark_concluded(plan: Plan, *, inputs_version: int, at: datetime) -> bool:
    """Say that the plan was concluded on these inputs; False, and nothing changed, if they moved.

    To be called first in the transaction that stores the conclusion. Judge money that the lanes did
    not spend goes back to its pools, and what its probes found is weighed.
    """
    budget_operations.hold(plan.digest)
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
