"""What maintainers do to a plan from its page: close, open again, cancel."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from evalhub.web.access import signed_in
from lanes.plans import queries
from lanes.plans.forms import CancelForm
from lanes.plans.models import Plan
from lanes.plans.operations import cancelling, lifecycle
from lanes.projects.models import Role
from lanes.projects.queries import actors, members


@require_POST
@signed_in
def close_plan(request: HttpRequest, digest: str) -> HttpResponse:
    """Have a plan decided now, with what is there."""
    plan = _plan_for(request, digest)
    lifecycle.close_plan(plan, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, "The plan is closed: it is decided with what has arrived.")
    return redirect("plan", digest)


@require_POST
@signed_in
def reopen_plan(request: HttpRequest, digest: str) -> HttpResponse:
    """Wait again for the lanes of a plan that was closed or is overdue."""
    plan = _plan_for(request, digest)
    lifecycle.reopen_plan(plan, actor=actors.actor_of(request), at=timezone.now())
    messages.success(
        request, "The plan waits for its lanes again. Run those again that were told to stop."
    )
    return redirect("plan", digest)


@require_POST
@signed_in
def cancel_plan(request: HttpRequest, digest: str) -> HttpResponse:
    """End a plan for good, with a reason for whoever reads it later."""
    plan = _plan_for(request, digest)
    form = CancelForm(request.POST)
    if not form.is_valid():
        why = " ".join(str(error) for error in form.errors["reason"])
        messages.error(request, f"The plan was not cancelled: {why}")
        return redirect("plan", digest)
    cancelling.cancel_plan(
        plan,
        reason=form.cleaned_data["reason"],
        actor=actors.actor_of(request),
        at=timezone.now(),
    )
    messages.success(request, "The plan is cancelled, and its lanes are told to stop.")
    return redirect("plan", digest)


def _plan_for(request: HttpRequest, digest: str) -> Plan:
    plan = queries.plan_with_digest(digest)
    members.require_role(request.user, plan.project, Role.MAINTAINER)
    return plan
