"""Which plans may serve as comparators, and which are adopted."""

from collections.abc import Sequence

from django.db.models import Exists, OuterRef, QuerySet

from gates.verdicts.models import Baseline, BaselineKind, ChosenBaseline
from lanes.plans.models import Plan, PlanState
from lanes.projects.models import Project

# Baselines of other models or environments may have been adopted in between; further back than
# this nobody means them any more.
_NEWEST = 20
# Each is evaluated anew at once.
_MOST_WAITING = 50
_MOST_LOOKED_AT = 200


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


def _others_of_commit(plan: Plan) -> QuerySet[Plan]:
    """Select the other native gates of a plan's project, suite and commit."""
    if plan.tested_sha is None or plan.is_foreign:
        return Plan.objects.none()
    return Plan.objects.filter(
        project_id=plan.project_id,
        suite_name=plan.suite_name,
        tested_sha=plan.tested_sha,
        kind="gate",
        is_foreign=False,
    ).exclude(pk=plan.pk)


def pooled_plans(plan: Plan, *, excluding: Sequence[Plan] = ()) -> list[Plan]:
    """Return the other plans whose runs count for this one: same project, suite and commit.

    Evidence of unknown origin never mixes into a verified plan's, and a foreign plan stands alone.
    """
    rows = _others_of_commit(plan).exclude(pk__in=[other.pk for other in excluding])
    if plan.is_verified:
        rows = rows.filter(is_verified=True)
    # Sorted here: for an order SQLite would read an index of times, with every plan of the suite.
    return sorted(rows.defer("document"), key=lambda row: (row.registered_at, row.pk))


def plans_that_pool(plan: Plan) -> list[int]:
    """Return the keys of the concluded plans for which this plan's runs count, the newest ones."""
    rows = _others_of_commit(plan).filter(state=PlanState.CONCLUDED, cancelled_at__isnull=True)
    if not plan.is_verified:
        rows = rows.filter(is_verified=False)
    newest_last = sorted(rows.values_list("registered_at", "pk"))
    return [pk for _, pk in newest_last[-_NEWEST:]]


def plans_without_baseline(project: Project, suite_name: str, *, excluding: Plan) -> list[int]:
    """Return the keys of the plans that were concluded while there was no rolling baseline for them.

    The newest of each head that still governs; what is older than the newest few hundred has been
    decided by people.
    """
    chosen = ChosenBaseline.objects.filter(plan=OuterRef("pk"), kind=BaselineKind.ROLLING)
    rows = Plan.objects.filter(
        ~Exists(chosen),
        project=project,
        suite_name=suite_name,
        # Without a baseline nothing better is concluded.
        conclusion__in=["action_required", "failure"],
        kind="gate",
        is_foreign=False,
        state=PlanState.CONCLUDED,
        superseded_at__isnull=True,
        cancelled_at__isnull=True,
    ).exclude(pk=excluding.pk)
    newest_first = rows.order_by("-registered_at", "-pk").values_list("head_sha", "pk")
    of_heads: dict[object, int] = {}
    for head_sha, pk in newest_first[:_MOST_LOOKED_AT]:
        of_heads.setdefault(head_sha or pk, pk)
    return list(of_heads.values())[:_MOST_WAITING]
