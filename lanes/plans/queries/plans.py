"""Plans: one by its digest, and lists of them.

They come without their document, which may be megabytes; `plan_document` has it parsed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Max, OuterRef, QuerySet, Subquery

from evalhub.protocol.faults import parse_document
from evalhub.protocol.retained import RetainedOrigin
from evalhub.web.errors import NotFoundError
from lanes.plans.models import Origin, Plan
from lanes.projects.models import Project


def plans_loaded() -> QuerySet[Plan]:
    """Return plans with project and policy, and without their document."""
    return Plan.objects.select_related("project", "policy").defer("document")


def plan_with_digest(digest: str) -> Plan:
    """Return the registered plan.

    Raises:
        NotFoundError: if no plan of this digest is registered.
    """
    plan = plans_loaded().filter(digest=digest).first()
    if plan is None:
        raise NotFoundError(f"There is no plan {_shown(digest)}.")
    return plan


class PlanFilter(NamedTuple):
    """Which plans are wanted; None does not filter."""

    suite_name: str | None = None
    conclusion: str | None = None
    """The newest conclusion's word; `NOT_CONCLUDED` for plans without one."""
    workflow_run_id: int | None = None


NOT_CONCLUDED = ""
ALL_PLANS = PlanFilter()


def plans_of(
    projects: Iterable[Project],
    *,
    before: Plan | None = None,
    limit: int,
    wanted: PlanFilter = ALL_PLANS,
) -> list[Plan]:
    """Return the newest plans of some projects; `before` is the last plan of the page above."""
    ids = [project.pk for project in projects]
    plans = _wanted(Plan.objects.order_by("-registered_at", "-pk"), wanted, before=before)
    rows = plans.filter(project__in=ids)
    if len(ids) > 1:
        # Else the newest few would be sorted out of everything that these projects ever had. A
        # project's own n-th is read off an index, and what is older than the newest of those n-th
        # is on no page.
        nth = plans.filter(project=OuterRef("pk")).values("registered_at")[limit - 1 : limit]
        limits = Project.objects.filter(pk__in=ids).annotate(nth=Subquery(nth))
        oldest = limits.aggregate(oldest=Max("nth"))["oldest"]
        if oldest is not None:
            rows = rows.filter(registered_at__gte=oldest)
    return list(rows.select_related("project").defer("document")[:limit])


def _wanted(plans: QuerySet[Plan], wanted: PlanFilter, *, before: Plan | None) -> QuerySet[Plan]:
    if wanted.suite_name is not None:
        plans = plans.filter(suite_name=wanted.suite_name)
    if wanted.conclusion == NOT_CONCLUDED:
        plans = plans.filter(conclusion__isnull=True)
    elif wanted.conclusion is not None:
        plans = plans.filter(conclusion=wanted.conclusion)
    if wanted.workflow_run_id is not None:
        # Who asks for it wants to go on with the plan; a foreign one takes no evidence.
        plans = plans.filter(workflow_run_id=wanted.workflow_run_id, is_foreign=False)
    if before is not None:
        # One range of the index, and what lies in it but not behind `before` taken out: a condition
        # of two alternatives would have both databases sort.
        plans = plans.filter(registered_at__lte=before.registered_at).exclude(
            registered_at=before.registered_at, pk__gte=before.pk
        )
    return plans


def plans_of_commit(project: Project, suite_name: str, head_sha: str) -> list[Plan]:
    """Return the plans of a suite whose check goes to this commit, oldest first."""
    plans = plans_loaded().filter(
        project=project, suite_name=suite_name, head_sha=head_sha, is_foreign=False
    )
    # Sorted here: for an order SQLite would read an index of times, with every plan of the suite.
    return sorted(plans, key=lambda plan: (plan.registered_at, plan.pk))


def plan_in_place_of(plan: Plan) -> Plan | None:
    """Return the newest plan of what a superseded one was about; None if it is not superseded."""
    if plan.superseded_at is None:
        return None
    rows = plans_loaded().filter(
        project=plan.project_id, suite_name=plan.suite_name, is_foreign=False
    )
    if plan.pull_request is not None:
        rows = rows.filter(pull_request=plan.pull_request)
    else:
        rows = rows.filter(pull_request__isnull=True, event=plan.event, ref=plan.ref)
    newest = rows.filter(superseded_at__isnull=True).order_by("-registered_at", "-pk")
    return newest.exclude(head_sha=plan.head_sha).first()


def origin_of(plan: Plan) -> RetainedOrigin | None:
    """Return where a foreign plan came from; None of one that was registered here."""
    if not plan.is_foreign:
        return None
    document = Origin.objects.filter(plan=plan).values_list("document", flat=True).first()
    return parse_document(RetainedOrigin, document) if document is not None else None


def _shown(digest: str) -> str:
    """Return what was asked for, fit for a sentence: a query may hold anything."""
    return digest if digest.isascii() and digest.isprintable() else ascii(digest)
