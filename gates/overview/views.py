"""Pages that show several wings at once: all plans, one plan, and the way to a baseline's run."""

import hmac
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics

from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.web import database
from evalhub.web.access import signed_in
from evalhub.web.errors import NotFoundError
from evalhub.web.parameters import query_with
from evidence.reader.queries import runs as reader
from evidence.store import queries as store
from evidence.store import storage
from evidence.store.models import Run
from gates.checks import queries as checks
from gates.decisions import queries as decisions
from gates.overview import metrics, presentation
from gates.verdicts.queries import comparators
from lanes.budget import queries as budget
from lanes.fidelity import queries as fidelity
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.models import Project, Role
from lanes.projects.queries import members

PLANS_PER_PAGE = 50
FAILED_SHOWN = 30
SCHEDULES_SHOWN = 50
MISMATCHES_SHOWN = 100
CONCLUSIONS = ("success", "failure", "action_required", "neutral")
NONE_YET = "open"
_WANTED = {**{word: word for word in CONCLUSIONS}, NONE_YET: plan_queries.NOT_CONCLUDED}


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Lead to the list of plans."""
    return redirect("plans")


@require_safe
@signed_in
def plans(request: HttpRequest) -> HttpResponse:
    """List the newest plans of the reader's projects, with what failed in words."""
    visible = list(members.projects_of(request.user))
    project, suite = request.GET.get("project", ""), request.GET.get("suite", "")
    conclusion = request.GET.get("conclusion", "")
    before = request.GET.get("before", "")
    chosen = [p for p in visible if not project or p.name == project]
    found = plan_queries.plans_of(
        chosen,
        before=_readable_plan(request, before) if before else None,
        limit=PLANS_PER_PAGE + 1,
        wanted=plan_queries.PlanFilter(
            suite_name=suite or None, conclusion=_WANTED.get(conclusion)
        ),
    )
    page = found[:PLANS_PER_PAGE]
    context = {
        "rows": presentation.plan_rows(page, newest=decisions.newest_headlines(page)),
        "next": query_with(request, before=page[-1].digest) if len(found) > len(page) else None,
        "is_first": not before,
        "schedules": [] if before else _schedules(chosen, suite),
        "projects": [p.name for p in visible],
        "conclusions": [*CONCLUSIONS, NONE_YET],
        "project": project,
        "suite": suite,
        "conclusion": conclusion,
    }
    return render(request, "gates/overview/plan_list.html", context)


def _schedules(chosen: Iterable[Project], suite: str) -> list[plan_queries.ScheduleState]:
    expected = plan_queries.schedules_of(chosen, suite_name=suite)[:SCHEDULES_SHOWN]
    return plan_queries.schedule_states(expected, at=timezone.now())


@require_safe
@signed_in
@vary_on_headers("HX-Request")
def plan(request: HttpRequest, digest: str) -> HttpResponse:
    """Show a plan: what it means, why, and what came of each lane; for htmx only how far it is."""
    found = _readable_plan(request, digest)
    document = plan_queries.plan_document(found)
    context = _progress(found, document) | {"plan": found, "at": timezone.now()}
    if request.headers.get("HX-Request") == "true":
        context["is_part"] = True
        response = render(request, "gates/overview/_plan_progress.html", context)
        if not context["is_open"]:
            # The conclusion is there: the whole page has something new to say.
            response["HX-Refresh"] = "true"
        return response
    conclusion = decisions.newest_conclusion(found)
    content: Mapping[str, Any] = conclusion.content if conclusion is not None else {}
    against = _baselines(found, document, content)
    context |= {
        "document": document,
        "origin": plan_queries.origin_of(found),
        "overdue": [row for row in context["lanes"] if row.is_overdue and not row.is_complete],
        "conclusion": conclusion,
        "content": content,
        "sentences": content.get("sentences", []),
        # Nothing runs here for a plan of another installation.
        "steps": [] if found.is_foreign else presentation.next_steps(content),
        "verdicts": presentation.verdicts(content),
        "failed": reader.failed_runs(
            found, baselines={arm: b.place for arm, b in against.items()}, limit=FAILED_SHOWN
        ),
        "failed_limit": FAILED_SHOWN,
        "outcomes": reader.outcome_counts(found),
        "baselines": {b.plan.digest: b for b in against.values() if b.plan.pk != found.pk},
        "check": checks.check_of_plan(found),
        "newer": plan_queries.plan_in_place_of(found),
        "may_manage": members.has_role(request.user, found.project, Role.MAINTAINER),
        "attempts": plan_queries.attempts_of(found),
        "refusals": store.refusal_counts(found),
        "secrets": store.secrets_in_plan(found),
        "rates": fidelity.rates_of_plan(found.digest),
        "minimum_rate": _minimum_match_rate(found),
        "mismatches_limit": MISMATCHES_SHOWN,
    }
    return render(request, "gates/overview/plan_detail.html", context)


def _minimum_match_rate(plan: Plan) -> float | None:
    return plan_queries.policy_document(plan.policy).environment.minimum_match_rate


def _progress(plan: Plan, document: PlanDocument) -> dict[str, Any]:
    """Return how far a plan is: the part of its page that changes while lanes run."""
    spend = budget.spend_of_plan(plan.digest)
    rows = presentation.lane_rows(
        document,
        coverage=store.missing_evidence(plan, with_advisory=True),
        attempts=plan_queries.newest_attempts(plan),
        spend=spend,
        is_concluded=not plan.is_open,
    )
    done = presentation.progress(rows)
    return {
        "is_open": plan.is_open,
        "lanes": rows,
        "progress": done,
        "spend": spend,
        "running": presentation.running_sentence(plan, done=done),
    }


class ComparedWith(NamedTuple):
    """What an arm was compared with."""

    comparison: str
    plan: Plan
    place: reader.BaselineArm


def _baselines(
    plan: Plan, document: PlanDocument, content: Mapping[str, Any]
) -> dict[str, ComparedWith]:
    """Return each arm's first comparator that is there, as the conclusion chose it."""
    adopted = comparators.adopted_for(
        plan,
        document,
        plan_queries.policy_document(plan.policy),
        evidence_digest=content.get("evidence_digest", ""),
    )
    found: dict[str, ComparedWith] = {}
    for arm in comparators.candidate_arms(document):
        for compared in comparators.comparators(plan, document, arm, adopted=adopted):
            if compared.baseline is not None and arm.name not in found:
                member = compared.baseline.members[0]
                found[arm.name] = ComparedWith(
                    compared.comparison,
                    member.plan,
                    reader.BaselineArm(member.plan.pk, member.arm),
                )
    return found


@require_safe
@signed_in
def run_baseline(request: HttpRequest, run_id: int) -> HttpResponse:
    """Lead from a run to the baseline's run of the same key."""
    run = store.run_with_id(run_id)
    _readable_plan(request, run.plan.digest)
    other = baseline_of(run)
    if other is None:
        raise NotFoundError(f"There is no baseline with a run of {run}.")
    return redirect(f"{reverse('run', args=[other.pk])}?compared={run.pk}")


def baseline_of(run: Run) -> Run | None:
    """Return the run of the same key that a run was compared with, if there is one."""
    plan = plan_queries.plan_with_digest(run.plan.digest)
    conclusion = decisions.newest_conclusion(plan)
    against = _baselines(
        plan, plan_queries.plan_document(plan), conclusion.content if conclusion else {}
    ).get(run.arm)
    if against is None:
        return None
    return reader.run_of_key(
        against.place.plan_id, scenario=run.scenario, arm=against.place.arm, epoch=run.epoch
    )


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Say whether this process can do its work, else in a sentence why it cannot.

    The worker is no part of it: without one, what lanes send is taken all the same.
    """
    reason = _reason_not_to_be_ready()
    if reason is not None:
        return HttpResponse(f"{reason}\n", "text/plain; charset=utf-8", 503)
    return HttpResponse("ready\n", content_type="text/plain")


def _reason_not_to_be_ready() -> str | None:
    """Return the first thing that is missing; strangers may read it, so it names no host and no path."""
    if database.failure() is not None:
        return "The database does not answer; the log of this process has its words."
    missing = database.unapplied_migrations()
    if missing:
        return (
            f"The database lacks {len(missing)} of this release's migrations, {missing[0]} first:"
            " run `manage.py migrate`."
        )
    if not storage.is_configured():
        return "The place of the objects cannot be used; `manage.py doctor` says why."
    return None


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """Answer a Prometheus: in its own text format, or in OpenMetrics where it takes that."""
    if settings.METRICS_TOKEN and not _carries(request, settings.METRICS_TOKEN):
        return HttpResponse(
            "The metrics take the token of EVALHUB_METRICS_TOKEN: Authorization: Bearer …\n",
            status=401,
            content_type="text/plain; charset=utf-8",
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = metrics.registry(at=timezone.now())
    if "application/openmetrics-text" in request.headers.get("Accept", ""):
        text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return HttpResponse(text, content_type=openmetrics.CONTENT_TYPE_LATEST)
    return HttpResponse(
        exposition.generate_latest(registry), content_type=exposition.CONTENT_TYPE_PLAIN_0_0_4
    )


def _carries(request: HttpRequest, token: str) -> bool:
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    given = secret.strip().encode(errors="surrogateescape")
    return kind.lower() == "bearer" and hmac.compare_digest(given, token.encode())


def _readable_plan(request: HttpRequest, digest: str) -> Plan:
    plan = plan_queries.plan_with_digest(digest)
    members.require_role(request.user, plan.project, Role.VIEWER)
    return plan
