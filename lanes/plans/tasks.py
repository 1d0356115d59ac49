"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName
from lanes.plans.operations import attempts


@app.task(name=TaskName.SWEEP_ATTEMPTS.value)
def sweep_attempts() -> None:
    """Mark the attempts that fell silent. Safe to repeat."""
    attempts.mark_silent_attempts(at=timezone.now())
