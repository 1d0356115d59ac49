"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from gates.verdicts.operations import pins


@sweep(TaskName.SWEEP_PINS)
def sweep_pins() -> None:
    """Pin the plans that others are measured by. Retention waits for it. Safe to repeat."""
    pins.hold_baselines(at=timezone.now())
