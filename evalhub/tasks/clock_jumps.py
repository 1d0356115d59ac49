"""What a clock that ran ahead leaves behind in the future, once it is set back.

A row with a time there would wait for it: hours, or for ever. The sweep that waits for times of rows
notices that it was last done at a time that is yet to come, and brings them back.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName

CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of machines that work together may differ, and a request may be late."""


def was_set_back(name: TaskName, *, at: datetime) -> bool:
    """Say whether the clock was set back since a sweep was last done. Ask from within that sweep."""
    ahead = SweepRun.objects.filter(name=name.value, finished_at__gt=at + CLOCK_SKEW)
    return ahead.exists()


def bring_back(
    rows: QuerySet[Any], field: str, *, at: datetime, farthest: timedelta, to: datetime | None
) -> int:
    """Set `field` to `to` where it lies farther ahead than `farthest`; return in how many rows."""
    return rows.filter(**{f"{field}__gt": at + farthest + CLOCK_SKEW}).update(**{field: to})
