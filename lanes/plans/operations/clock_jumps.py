"""Times of plans that a clock which was set back has left in the future."""

from datetime import datetime

from django.db.models import F, Max

from evalhub.tasks.clock_jumps import CLOCK_SKEW
from lanes.plans.models import Plan


def bring_back_plans(*, at: datetime) -> int:
    """Move plans that were registered in the future to now, each with its deadline.

    All by as much, so that they stay in their order, and come before those that follow. Return how
    many. Safe to repeat.
    """
    ahead = Plan.objects.filter(registered_at__gt=at + CLOCK_SKEW)
    latest = ahead.aggregate(latest=Max("registered_at"))["latest"]
    if latest is None:
        return 0
    by = latest - at
    return ahead.update(registered_at=F("registered_at") - by, deadline_at=F("deadline_at") - by)
