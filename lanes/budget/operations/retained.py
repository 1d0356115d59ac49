"""What the rows of sub-allocations know that no document tells: told as columns, and made again."""

from collections.abc import Iterator
from typing import NamedTuple

from django.db import transaction
from pydantic import JsonValue

from evalhub.columns import Columns, column_values, columns_of
from lanes.budget import queries
from lanes.budget.models import Pool, SubAllocation
from lanes.projects.models import Project


class AllocationColumns(NamedTuple):
    lane: str
    pool: str
    columns: dict[str, JsonValue]


def allocation_columns(plan_digest: str) -> Iterator[AllocationColumns]:
    """Yield what the rows of a plan's sub-allocations hold, by lane."""
    rows = SubAllocation.objects.filter(plan=plan_digest).select_related("pool")
    for row in rows.order_by("lane"):
        columns = columns_of(row, besides={"plan", "lane", "spent_microusd", "folded_microusd"})
        yield AllocationColumns(row.lane, row.pool.name, columns)


@transaction.atomic
def restore_allocation(
    project: Project, plan_digest: str, *, lane: str, pool_name: str, columns: Columns
) -> bool:
    """Make a lane's sub-allocation again where it is absent; False if its pool is not there.

    What the lane has spent is taken from its ledger.
    """
    pool = Pool.objects.filter(project=project, name=pool_name).first()
    if pool is None:
        return False
    values = column_values(SubAllocation, columns)
    allocation, created = SubAllocation.objects.get_or_create(
        plan=plan_digest, lane=lane, defaults={"pool": pool, **values}
    )
    if created:
        allocation.spent_microusd = queries.booked_of_lane(plan_digest, lane)
        allocation.save(update_fields=["spent_microusd"])
    return True
