"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from evidence.store.operations import receipts


@sweep(TaskName.SWEEP_RECEIPTS)
def sweep_receipts() -> None:
    """Write the receipt objects that a crash or an absent object store left out. Safe to repeat."""
    receipts.sweep_receipts(at=timezone.now())
