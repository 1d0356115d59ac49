"""Add up in a pool what its released sub-allocations have spent, so that nobody does it at each plan.

A sub-allocation says how much of it is in the pool's sum. Until it says so, and wherever late
evidence or another release has changed what was spent, it is counted by itself: the sum of both is
true at any time.
"""

from django.db import transaction
from django.db.models import BigIntegerField, F

from lanes.budget import queries
from lanes.budget.models import Pool, SubAllocation

_AT_ONCE = 500
"""SQLite takes a bounded number of parameters in one statement."""
_MOST_OF_A_COLUMN = BigIntegerField.MAX_BIGINT


def fold_pools() -> int:
    """Fold some released sub-allocations of each pool into it; return how many. Safe to repeat."""
    return sum(_fold(pool) for pool in queries.pools_to_fold())


@transaction.atomic
def _fold(pool: Pool) -> int:
    # Pools before sub-allocations, as everywhere; who settles in this moment is left to the next time.
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    rows = queries.unfolded_allocations().filter(pool=pool).order_by("pk")
    seen = list(rows.select_for_update(no_key=True, skip_locked=True)[:_AT_ONCE])
    total = pool.folded_microusd + sum(row.spent_microusd - row.folded_microusd for row in seen)
    if not seen or total > _MOST_OF_A_COLUMN:
        # More than a column holds stays in the sub-allocations, which are added up otherwise.
        return 0
    SubAllocation.objects.filter(pk__in=[row.pk for row in seen]).update(
        folded_microusd=F("spent_microusd")
    )
    Pool.objects.filter(pk=pool.pk).update(folded_microusd=total)
    return len(seen)
