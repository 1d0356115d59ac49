"""Which plans may serve as comparators, and which are adopted."""

from collections.abc import Sequence

from django.db.models import QuerySet

from gates.verdicts.models import Baseline, BaselineKind, ChosenBaseline
from lanes.plans.models import Plan
from lanes.projects.models import Project

# Baselines of other models or environments may have been adopted in between; further back than
# this nobody means them any more.
_NEWEST = 20


def baselines_of(project: Project) -> QuerySet[Baseline]:
    """Return every baseline that was ever adopted in a project, newest first."""
    return (
        Baseline.objects.filter(project=project)
        .select_related("plan")
        .defer("plan__document")
        .order_by("-adopted_at", "-id")
    )


def adopted_plans(
    project: Project, suite_name: str, kind: BaselineKind, *, excluding: Plan | None = None
) -> list[Plan]:
    """Return the plans adopted for a suite, the newest adoption first, each once."""
    rows = baselines_of(project).filter(suite_name=suite_name, kind=kind)
    if excluding is not None:
        rows = rows.exclude(plan=excluding)
    return list({row.plan.pk: row.plan for row in rows[:_NEWEST]}.values())


def current_baseline(project: Project, suite_name: str, kind: BaselineKind) -> Plan | None:
    """Return the plan that was adopted last for a suite; None while there is none."""
    return next(iter(adopted_plans(project, suite_name, kind)), None)


def chosen_baseline(plan: Plan, kind: BaselineKind, *, evidence_digest: str) -> Plan | None:
    """Return the baseline that a plan chose earlier on the same evidence, if it did."""
    row = (
        ChosenBaseline.objects.filter(plan=plan, kind=kind, evidence_digest=evidence_digest)
        .select_related("baseline")
        .defer("baseline__document")
        .first()
    )
    return None if row is None else row.baseline


def pooled_plans(plan: Plan, *, excluding: Sequence[Plan] = ()) -> list[Plan]:
    """Return the other plans whose runs count for this one: same project, suite and commit.

    Evidence of unknown origin never mixes into a verified plan's, and a foreign plan stands alone.
    """
    if plan.tested_sha is None or plan.is_foreign:
        return []
    rows = Plan.objects.filter(
        project_id=plan.project_id,
        suite_name=plan.suite_name,
        tested_sha=plan.tested_sha,
        kind="gate",
        is_foreign=False,
    ).exclude(pk__in=[plan.pk, *(other.pk for other in excluding)])
    if plan.is_verified:
        rows = rows.filter(is_verified=True)
    # Sorted here: for an order SQLite would read an index of times, with every plan of the suite.
    return sorted(rows.defer("document"), key=lambda row: (row.registered_at, row.pk))
