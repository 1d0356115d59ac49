"""Plans that others are measured by are kept, whatever their age."""

from collections.abc import Iterator
from datetime import datetime

from evidence.store.operations import pins
from gates.verdicts.models import Baseline, BaselineKind
from gates.verdicts.queries import baselines
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.models import Project

HOLDER = "baseline"


def hold_baselines(*, at: datetime) -> int:
    """Pin the plans that serve as baselines, and let go of those that no longer do; return changes.

    Safe to repeat. As many adoptions are looked at as a plan may choose its baseline from.
    """
    wanted: dict[int, str] = {}
    for plan_id, reason in (*_adopted(), *_named_by_policies()):
        wanted.setdefault(plan_id, reason)
    return pins.hold_plans(HOLDER, wanted, at=at)


def _adopted() -> Iterator[tuple[int, str]]:
    for project in Project.objects.order_by("pk"):
        for suite in _suites_with_baselines(project):
            for kind in BaselineKind:
                for plan in baselines.adopted_plans(project, suite, kind):
                    yield plan.pk, f"A {kind.value.lower()} baseline of {suite}."


def _suites_with_baselines(project: Project) -> Iterator[str]:
    """Yield each suite once, from one index entry to the next: adoptions are as many as nights."""
    names = Baseline.objects.filter(project=project).order_by("suite_name")
    suite = names.values_list("suite_name", flat=True).first()
    while suite is not None:
        yield suite
        suite = names.filter(suite_name__gt=suite).values_list("suite_name", flat=True).first()


def _named_by_policies() -> Iterator[tuple[int, str]]:
    for project in Project.objects.order_by("pk"):
        policy = plan_queries.current_policy(project)
        release = plan_queries.policy_document(policy).baseline.release if policy else None
        if release is not None:
            plans = Plan.objects.filter(project=project, digest=release)
            for plan_id in plans.values_list("pk", flat=True):
                yield plan_id, "The release baseline that the policy names."
