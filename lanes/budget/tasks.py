"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from lanes.budget.operations import alerts, folding


@sweep(TaskName.SWEEP_BUDGETS)
def sweep_budgets() -> None:
    """Tell of the pools and lanes whose money runs out; add up what ended. Safe to repeat."""
    alerts.watch_pools(at=timezone.now())
    folding.fold_pools()
