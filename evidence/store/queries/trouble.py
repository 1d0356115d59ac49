"""What was refused, and how often the object store failed."""

from datetime import datetime

from django.db.models import Count, QuerySet

from evalhub.protocol.segments import Category
from evidence.store.models import Refusal, StorageFault, StorageOperation
from lanes.plans.models import Plan


def refusals_of_plan(plan: Plan) -> QuerySet[Refusal]:
    """Return the plan's quarantine, newest first."""
    refusals = Refusal.objects.filter(plan=plan).select_related("attempt__lane")
    return refusals.order_by("-refused_at", "-pk")


def refusal_counts(plan: Plan) -> dict[str, int]:
    """Return how many items of a plan were refused, by category."""
    counts = Refusal.objects.filter(plan=plan).values_list("category").annotate(count=Count("pk"))
    return dict(counts.order_by("category"))


def recent_refusal_counts(since: datetime, *, most: int) -> dict[str, int]:
    """Return how many items were refused from `since` on, by category.

    Of all plans, so only the newest `most` are looked at: the time has no index of its own.
    """
    newest = Refusal.objects.order_by("-pk").values_list("category", "refused_at")[:most]
    counts = dict.fromkeys((str(c) for c in Category if c is not Category.MISSING), 0)
    for category, refused_at in newest:
        counts[category] += refused_at >= since
    return counts


def storage_fault_counts(since: datetime) -> dict[str, int]:
    """Return how often the object store failed from `since` on, by what was being done."""
    rows = storage_faults_since(since).order_by("operation").values_list("operation")
    return dict.fromkeys(StorageOperation.values, 0) | dict(rows.annotate(count=Count("pk")))


def storage_faults_since(at: datetime) -> QuerySet[StorageFault]:
    """Return the times that the object store failed from `at` on, newest first."""
    return StorageFault.objects.filter(at__gte=at).order_by("-pk")
