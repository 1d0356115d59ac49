"""Pages: what a project has stored; for its maintainers, for how long, what is needed, and what must go."""

import json

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.retention import PurgeRequest
from evalhub.web.access import signed_in
from evalhub.web.errors import InvalidDocumentError
from evidence.store import presentation, queries
from evidence.store.forms import PinForm, PurgeForm, RetentionForm
from evidence.store.operations import pins, purging, retention
from evidence.store.operations.purging import NothingToPurgeError, PlanPinnedError, Target
from evidence.store.operations.retention import Days, RetentionInvalidError
from lanes.plans import queries as plans
from lanes.plans.models import Plan
from lanes.projects.models import Project, Role
from lanes.projects.queries import actors, members

LARGEST_SHOWN, REMOVALS_SHOWN, PINS_SHOWN = 20, 30, 30


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def storage(request: HttpRequest, project: str) -> HttpResponse:
    """Show what a project has stored. Maintainers change for how long: first they see what would go."""
    role = Role.MAINTAINER if request.method == "POST" else Role.VIEWER
    found = members.project_for(request.user, project, role)
    kept = retention.days_of(found)
    if request.method != "POST":
        form = RetentionForm(initial=kept.as_json(), label_suffix="")
        return _storage_page(request, found, form)
    form = RetentionForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _storage_page(request, found, form, status=422)
    wanted, at = (
        Days(form.cleaned_data["record_days"], form.cleaned_data["bulk_days"]),
        timezone.now(),
    )
    try:
        due = retention.due_with(found, wanted, at=at)
        if "confirmed" not in request.POST:
            return _storage_page(request, found, form, {"wanted": wanted, "due": due})
        retention.set_retention(found, wanted, actor=actors.actor_of(request), at=at)
    except RetentionInvalidError as error:
        form.add_error(None, error.detail)
        return _storage_page(request, found, form, status=error.status)
    messages.success(request, "Evidence is kept as you set it.")
    return redirect("storage", project)


@require_POST
@signed_in
def pin(request: HttpRequest, digest: str) -> HttpResponse:
    """Keep a plan's evidence whatever its age."""
    plan = _managed_plan(request, digest)
    form = PinForm(request.POST)
    if form.is_valid():
        reason, actor = form.cleaned_data["reason"], actors.actor_of(request)
        pins.pin_plan(plan, reason=reason, actor=actor, at=timezone.now())
        messages.success(request, "The evidence of the plan is kept until it is unpinned.")
    else:
        messages.error(request, "Not pinned: say why the plan is needed, in a few words.")
    return redirect("plan-purge", digest)


@require_POST
@signed_in
def unpin(request: HttpRequest, digest: str) -> HttpResponse:
    """Let a plan's evidence have its age again."""
    plan = _managed_plan(request, digest)
    pins.unpin_plan(plan, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, "Your pin is gone; the plan's evidence has its age again.")
    return redirect("plan-purge", digest)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def purge(request: HttpRequest, digest: str) -> HttpResponse:
    """Show what is stored of a plan, who needs it, and what a purge would remove; have it removed."""
    plan = _managed_plan(request, digest)
    target = _target(plan, request)
    if request.method != "POST":
        return _purge_page(request, target, PurgeForm(label_suffix=""))
    form = PurgeForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _purge_page(request, target, form, status=422)
    try:
        removal = purging.purge(
            target, **form.cleaned_data, actor=actors.actor_of(request), at=timezone.now()
        )
    except (PlanPinnedError, NothingToPurgeError) as error:
        form.add_error(None, error.detail)
        return _purge_page(request, target, form, status=error.status)
    messages.success(
        request,
        f"{removal.segments} segments are being removed. Nobody is given them any more.",
    )
    return redirect("plan-purge", digest)


def _target(plan: Plan, request: HttpRequest) -> Target:
    """Return what the address names: all of the plan, or an attempt, a segment, a run of it."""
    given = {name: request.GET[name] for name in ("attempt", "seq", "run") if request.GET.get(name)}
    scope = "plan"
    for name, of in (("attempt", "attempt"), ("seq", "segment"), ("run", "run")):
        scope = of if name in given else scope
    numbers = {
        name: int(value) if name != "attempt" and value.isdecimal() else value
        for name, value in given.items()
    }
    fields = {"scope": scope, "reason": "to be asked for", **numbers}
    try:
        wanted = parse_document(PurgeRequest, json.dumps(fields))
    except DocumentError as error:
        raise InvalidDocumentError.of(error, what="part of the plan") from error
    return presentation.target_of(plan, wanted)


def _managed_plan(request: HttpRequest, digest: str) -> Plan:
    plan = plans.plan_with_digest(digest)
    members.require_role(request.user, plan.project, Role.MAINTAINER)
    return plan


def _storage_page(
    request: HttpRequest,
    project: Project,
    form: RetentionForm,
    asked: dict[str, object] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    uses = queries.storage_of_project(project)
    days = retention.days_of(project)
    context = {
        "project": project,
        "rows": [(use, days.of(use.stored_class)) for use in uses],
        "total": sum(use.size_bytes for use in uses),
        "largest": queries.largest_plans(project, limit=LARGEST_SHOWN),
        "pins": queries.pins_of_project(project)[:PINS_SHOWN],
        "removals": queries.removals_of_project(project)[:REMOVALS_SHOWN],
        "may_manage": members.has_role(request.user, project, Role.MAINTAINER),
        "form": form,
        **(asked or {}),
    }
    return render(request, "evidence/store/storage.html", context, status=status)


def _purge_page(
    request: HttpRequest, target: Target, form: PurgeForm, *, status: int = 200
) -> HttpResponse:
    plan = target.plan
    held = list(queries.pins_of_plan(plan))
    context = {
        "plan": plan,
        "target": target,
        "told": purging.preview(target),
        "uses": queries.storage_of_plan(plan),
        "pins": held,
        "is_pinned": any(pin.holder == pins.MAINTAINER for pin in held),
        "removals": queries.removals_of_plan(plan)[:REMOVALS_SHOWN],
        "form": form,
        "pin_form": PinForm(label_suffix="", auto_id="pin_%s"),
    }
    return render(request, "evidence/store/plan_purge.html", context, status=status)
