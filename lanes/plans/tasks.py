"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from lanes.plans.operations import attempts, schedules


@sweep(TaskName.SWEEP_ATTEMPTS)
def sweep_attempts() -> None:
    """Mark the attempts that fell silent. Safe to repeat."""
    attempts.mark_silent_attempts(at=timezone.now())


@sweep(TaskName.SWEEP_SCHEDULES)
def sweep_schedules() -> None:
    """Tell of the nightlies that did not come in time. Safe to repeat."""
    schedules.watch_schedules(at=timezone.now())
