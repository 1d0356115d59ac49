"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.clock_jumps import was_set_back
from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from lanes.plans.operations import attempts, clock_jumps, schedules


@sweep(TaskName.SWEEP_ATTEMPTS)
def sweep_attempts() -> None:
    """Mark the attempts that fell silent. Safe to repeat."""
    at = timezone.now()
    if was_set_back(TaskName.SWEEP_ATTEMPTS, at=at):
        clock_jumps.bring_back_plans(at=at)
    attempts.mark_silent_attempts(at=at)


@sweep(TaskName.SWEEP_SCHEDULES)
def sweep_schedules() -> None:
    """Tell of the nightlies that did not come in time. Safe to repeat."""
    schedules.watch_schedules(at=timezone.now())
