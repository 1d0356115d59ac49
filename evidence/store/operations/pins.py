"""Pins: who needs the evidence of a plan, so that its age does not matter."""

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db import transaction

from evalhub.web.errors import DomainError
from evidence.store.models import Pin
from lanes.plans.models import Plan
from lanes.projects.operations import audit

MAINTAINER = "maintainer"
"""The holder of a pin that a person set; what the server itself needs has other holders."""


class PinNotThereError(DomainError):
    status = 404
    code = "pin-not-there"
    fix = "Pins that the server holds itself go when it needs the plan no more."


@transaction.atomic
def pin_plan(plan: Plan, *, reason: str, actor: str, at: datetime) -> Pin:
    """Keep the evidence of a plan whatever its age, on the word of a maintainer; recorded in the audit."""
    lock(plan)
    known = Pin.objects.filter(plan=plan, holder=MAINTAINER).first()
    pin, _ = Pin.objects.update_or_create(
        plan=plan,
        holder=MAINTAINER,
        defaults={"reason": reason, "pinned_by": actor[:200], "pinned_at": at},
    )
    audit.record_audit(
        plan.project,
        actor=actor,
        action="plan.pin",
        subject=plan.digest,
        before=None if known is None else {"reason": known.reason},
        after={"reason": reason},
        at=at,
    )
    return pin


@transaction.atomic
def unpin_plan(plan: Plan, *, actor: str, at: datetime) -> None:
    """Let a plan's evidence have its age again, unless others need it.

    Raises:
        PinNotThereError: if no maintainer pinned it.
    """
    lock(plan)
    pin = Pin.objects.filter(plan=plan, holder=MAINTAINER).first()
    if pin is None:
        raise PinNotThereError(f"No maintainer has pinned plan {plan.digest}.")
    pin.delete()
    audit.record_audit(
        plan.project,
        actor=actor,
        action="plan.unpin",
        subject=plan.digest,
        before={"reason": pin.reason},
        at=at,
    )


@transaction.atomic
def hold_plans(
    holder: str, wanted: Mapping[int, str], *, among: Collection[int] | None = None, at: datetime
) -> int:
    """Let a part of the server hold exactly the plans `wanted`, each with its reason; return changes.

    With `among`, only plans of these projects are looked at.
    """
    held = Pin.objects.filter(holder=holder)
    if among is not None:
        held = held.filter(plan__project__in=among)
    known = dict(held.values_list("plan_id", "reason"))
    changes = 0
    for plan_id in sorted(wanted.keys() | known.keys()):
        if known.get(plan_id) == wanted.get(plan_id):
            continue
        changes += 1
        Plan.objects.select_for_update(no_key=True).only("pk").get(pk=plan_id)
        if plan_id not in wanted:
            Pin.objects.filter(plan=plan_id, holder=holder).delete()
            continue
        Pin.objects.update_or_create(
            plan_id=plan_id,
            holder=holder,
            defaults={"reason": wanted[plan_id], "pinned_by": holder, "pinned_at": at},
        )
    return changes


def lock(plan: Plan) -> None:
    """Hold a plan's row: a pin comes before an order to remove, or after it, never between."""
    Plan.objects.select_for_update(no_key=True).only("pk").get(pk=plan.pk)
