"""Pages of evidence: runs of a plan, a run, a turn, an item, a lane, the quarantine."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from evalhub.protocol.plan import PlannedLane
from evalhub.protocol.records import JudgeLine
from evalhub.protocol.segments import Category
from evalhub.web.access import signed_in
from evalhub.web.downloads import attachment
from evalhub.web.errors import ForbiddenError, NotFoundError
from evalhub.web.parameters import number_or, query_with, whole_number
from evidence.reader import presentation
from evidence.reader.queries import records, runs, transcripts
from evidence.reader.queries.removed import Removed
from evidence.store import queries as store
from evidence.store.models import Item, Run, StorageOperation
from evidence.store.operations import faults, secrets
from lanes.plans import queries as plans
from lanes.plans.models import Attempt, Plan, PlanState
from lanes.projects.models import Role
from lanes.projects.queries import actors, members

TURNS_PER_PAGE = 200
RUNS_PER_PAGE = 100
REFUSALS_PER_PAGE = 100
LINES_PER_PAGE = 2_000
TAIL_LINES = 60
REFUSALS_PER_LANE = 20


@require_safe
@signed_in
def plan_runs(request: HttpRequest, digest: str) -> HttpResponse:
    """List the runs of a plan by scenario, arm and epoch, with the deciding scores."""
    plan = _readable_plan(request, digest)
    document = plans.plan_document(plan)
    category = request.GET.get("category", "")
    wanted = runs.RunFilter(
        outcome=request.GET.get("outcome", ""),
        arm=request.GET.get("arm", ""),
        lane=request.GET.get("lane", ""),
        scenario=request.GET.get("scenario", ""),
        scenarios=[s.id for s in document.scenarios if s.category == category]
        if category
        else None,
    )
    page = runs.run_page(
        plan, wanted=wanted, after=whole_number(request, "after"), limit=RUNS_PER_PAGE
    )
    scores = runs.deciding_scores(
        page.runs, rubrics=document.rubrics, policy=plans.policy_document(plan.policy)
    )
    context = {
        "plan": plan,
        "rubrics": document.rubrics,
        "rows": presentation.run_rows(page.runs, rubrics=document.rubrics, scores=scores),
        "next": query_with(request, after=page.next) if page.next else None,
        "is_first": "after" not in request.GET,
        "wanted": wanted,
        "category": category,
        "categories": sorted({scenario.category for scenario in document.scenarios}),
        "arms": [arm.name for arm in document.arms],
        "lanes": [lane.name for lane in document.lanes],
        "outcomes": runs.outcome_counts(plan),
    }
    return render(request, "evidence/reader/run_list.html", context)


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def run(
    request: HttpRequest, run_id: int, *, baseline_of: Callable[[Run], Run | None]
) -> HttpResponse:
    """Show one run: its transcript by page, the judges' rationale beside it, files and logs."""
    found = _readable_run(request, run_id)
    compared = whole_number(request, "compared")
    document = plans.plan_document(found.plan)
    start = number_or(request, "from", 1)
    removed = Removed()
    page = removed.unless(
        lambda: transcripts.transcript_page(found, start=start, limit=TURNS_PER_PAGE),
        transcripts.NO_PAGE,
    )
    failure = removed.unless(lambda: records.failure(found), None)
    judged: list[JudgeLine] = removed.unless(lambda: records.judge_lines(found), [])
    items = records.items(found)
    scores = runs.deciding_scores(
        [found], rubrics=document.rubrics, policy=plans.policy_document(found.plan.policy)
    ).get(found.pk, {})
    context = {
        "run": found,
        "scenario": next((s for s in document.scenarios if s.id == found.scenario), None),
        "result": removed.unless(lambda: records.result(found), None),
        "removed": removed.sentences,
        "failure": failure,
        "failure_cites": presentation.cites(failure.turns, page=page.turns) if failure else [],
        "page": page,
        "turns": presentation.turn_views(
            page.turns,
            cited=presentation.cited_turns(judged, failure),
            bodies=presentation.bodies_by_digest(items),
        ),
        "last_page": max(page.total - TURNS_PER_PAGE + 1, 1),
        "judged": presentation.rubric_views(judged, values=scores, page=page.turns),
        "scores": dict(sorted(scores.items())),
        "items": items,
        "logs": records.lane_logs(found.attempt),
        "beside": runs.runs_beside(found),
        "baseline": baseline_of(found),
        "compared": compared and runs.run_of_project(found.plan.project, run_id=compared),
        "refusals": runs.refusals_of_run(found),
        "secrets": store.secrets_in_items(items),
    }
    return render(request, "evidence/reader/run_detail.html", context)


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def turn(request: HttpRequest, run_id: int, number: int) -> HttpResponse:
    """Show one turn in full, however long it is."""
    found = _readable_run(request, run_id)
    view = presentation.whole_turn_view(
        transcripts.turn_with_number(found, number),
        cited={},
        bodies=presentation.bodies_by_digest(records.items(found)),
    )
    return render(request, "evidence/reader/turn_detail.html", {"run": found, "view": view})


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def item(request: HttpRequest, item_id: int) -> HttpResponse:
    """Show one piece of evidence as text, by page."""
    found = _readable_item(request, item_id)
    removed = Removed()
    data = removed.unless(lambda: store.shown_bytes(found), b"")
    text = presentation.text_page(data, start=number_or(request, "from", 1), limit=LINES_PER_PAGE)
    context = {
        "removed": removed.sentences,
        "item": found,
        "text": text,
        "secrets": store.secrets_in_items([found]),
        "may_unmask": _is_maintainer(request, found.attempt.lane.plan),
    }
    return render(request, "evidence/reader/item_detail.html", context)


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def item_file(request: HttpRequest, item_id: int) -> HttpResponse:
    """Send one piece of evidence as a download, its secrets replaced by markers."""
    found = _readable_item(request, item_id)
    return attachment(store.shown_bytes(found), name=presentation.download_name(found.shown_path))


@require_POST
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def item_unmasked(request: HttpRequest, item_id: int) -> HttpResponse:
    """Send one piece of evidence with its secrets, to maintainers; the audit says who took it."""
    found = _readable_item(request, item_id, role=Role.MAINTAINER)
    data = store.item_bytes(found)
    secrets.note_raw_look(
        found.attempt.lane.plan.project,
        actor=actors.actor_of(request),
        subject=f"{found.attempt.lane.name} {found.attempt.key} {found.shown_path}",
        at=timezone.now(),
    )
    return attachment(data, name=presentation.download_name(found.shown_path))


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def lane(request: HttpRequest, digest: str, lane: str) -> HttpResponse:
    """Show one lane: its attempts, and of one of them what it checked, where it ran and its logs."""
    plan = _readable_plan(request, digest)
    planned = _planned_lane(plan, lane)
    attempts = runs.lane_attempts(plan, lane)
    wanted = request.GET.get("attempt", "")
    keys = {row.attempt.key: row.attempt for row in attempts}
    shown = keys.get(wanted) or (attempts[0].attempt if attempts else None)
    context = {
        "plan": plan,
        "lane": planned,
        "attempts": attempts,
        "shown": shown,
        "at": timezone.now(),
        "outcomes": runs.outcome_counts(plan, lane=lane),
        "owed": presentation.owed(
            planned,
            store.lane_coverage(plans.lane_named(plan, lane), planned=planned),
            outcomes=runs.outcome_counts(plan, lane=lane),
            is_decided=plan.state == PlanState.CONCLUDED,
        ),
    }
    if shown is not None:
        removed = Removed()
        logs: list[presentation.LogView] = removed.unless(lambda: _log_views(shown), [])
        context |= {
            "preflight": removed.unless(lambda: records.preflight(shown), None),
            "environment": removed.unless(lambda: records.lane_environment(shown), None),
            "redactions": removed.unless(lambda: records.redactions(shown), None),
            "removed": removed.sentences,
            "secrets": store.secrets_in_attempt(shown),
            "logs": logs,
            "items": records.lane_items(shown),
            "refused": runs.refusals_of_attempt(shown, limit=REFUSALS_PER_LANE),
        }
    return render(request, "evidence/reader/lane_detail.html", context)


@require_safe
@signed_in
def quarantine(request: HttpRequest, digest: str) -> HttpResponse:
    """List evidence of a plan that was refused: why, from where, and its bytes for triagers."""
    plan = _readable_plan(request, digest)
    category = request.GET.get("category", "")
    page = runs.refusal_page(
        plan,
        category=category if category in set(Category) else "",
        before=whole_number(request, "before"),
        limit=REFUSALS_PER_PAGE,
    )
    role = members.role_of(request.user, plan.project)
    context = {
        "plan": plan,
        "page": page,
        "category": category,
        "next": query_with(request, before=page.next) if page.next else None,
        "is_first": "before" not in request.GET,
        "may_download": role in {Role.TRIAGER, Role.MAINTAINER},
        "may_unmask": role == Role.MAINTAINER,
    }
    return render(request, "evidence/reader/quarantine.html", context)


@require_safe
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def quarantine_file(request: HttpRequest, refusal_id: int) -> HttpResponse:
    """Send refused bytes as a download to triagers and maintainers, secrets replaced by markers.

    A whole segment is packed, so that nobody can tell what is in it: that takes `quarantine_unmasked`.
    """
    refusal = records.refusal_with_id(refusal_id)
    members.require_role(request.user, refusal.plan.project, Role.TRIAGER)
    if not refusal.path:
        raise ForbiddenError(
            "A whole segment is sent as it came, secrets too, and only to maintainers who ask for that.",
            fix="Ask a maintainer of the project to take it from the quarantine.",
        )
    name = presentation.refusal_name(refusal)
    return attachment(store.shown_refusal_bytes(refusal), name=name)


@require_POST
@signed_in
@faults.noted(StorageOperation.READ, clock=timezone.now)
def quarantine_unmasked(request: HttpRequest, refusal_id: int) -> HttpResponse:
    """Send refused bytes as they came, to maintainers; the audit says who took them."""
    refusal = records.refusal_with_id(refusal_id)
    members.require_role(request.user, refusal.plan.project, Role.MAINTAINER)
    data = store.refusal_bytes(refusal)
    name = presentation.refusal_name(refusal)
    secrets.note_raw_look(
        refusal.plan.project,
        actor=actors.actor_of(request),
        subject=f"{refusal.attempt.lane.name} {refusal.attempt.key} quarantine {refusal.pk}",
        at=timezone.now(),
    )
    return attachment(data, name=name)


def _log_views(attempt: Attempt) -> list[presentation.LogView]:
    return [
        presentation.log_view(log, store.shown_bytes(log.parts[-1]), tail=TAIL_LINES)
        for log in records.lane_logs(attempt)
    ]


def _readable_plan(request: HttpRequest, digest: str) -> Plan:
    plan = plans.plan_with_digest(digest)
    members.require_role(request.user, plan.project, Role.VIEWER)
    return plan


def _readable_run(request: HttpRequest, run_id: int) -> Run:
    found = store.run_with_id(run_id)
    members.require_role(request.user, found.plan.project, Role.VIEWER)
    return found


def _readable_item(request: HttpRequest, item_id: int, *, role: Role = Role.VIEWER) -> Item:
    found = records.item_with_id(item_id)
    members.require_role(request.user, found.attempt.lane.plan.project, role)
    return found


def _is_maintainer(request: HttpRequest, plan: Plan) -> bool:
    return members.has_role(request.user, plan.project, Role.MAINTAINER)


def _planned_lane(plan: Plan, name: str) -> PlannedLane:
    try:
        return plans.plan_document(plan).lane(name)
    except KeyError:
        raise NotFoundError(f"The plan has no lane {name!r}.") from None
