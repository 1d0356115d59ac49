"""From a plan to its check at GitHub: conclude, write down what the check should say, deliver."""

from datetime import datetime

from gates.checks.operations.delivery import deliver_check
from gates.checks.operations.desired import desire_check
from gates.decisions.models import Conclusion
from gates.decisions.operations import conclusion as decisions
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle


def conclude_plan(plan: Plan, *, at: datetime) -> None:
    """Conclude the plan if it is finished, and make the first delivery of its check at once.

    Of a cancelled plan nothing is concluded: its check says so, and then the plan is at rest.
    A request may come late, when the plan has begun to run again: then nothing happens. Nothing is
    stored if the inputs move meanwhile; whoever moved them has asked anew.
    """
    if plan.cancelled_at is not None:
        # In this order: a check that was not written is looked for as long as the plan is not at rest.
        desire_check(plan, at=at)
        lifecycle.settle_cancelled(plan, inputs_version=plan.inputs_version)
        refresh_check(plan, at=at)
        return

    def write_check(conclusion: Conclusion) -> None:
        desire_check(conclusion.plan, at=at)

    # The check's desired state goes into the transaction that stores the conclusion.
    decisions.conclude(plan, at=at, also=write_check)
    refresh_check(plan, at=at)


def refresh_check(plan: Plan, *, at: datetime) -> None:
    """Bring the check of the plan's commit up to date and deliver it."""
    check = desire_check(plan, at=at)
    if check is not None:
        deliver_check(check, at=at)
