"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName
from evidence.store.operations import receipts


@app.task(name=TaskName.SWEEP_RECEIPTS.value)
def sweep_receipts() -> None:
    """Write the receipt objects that a crash or an absent object store left out. Safe to repeat."""
    receipts.sweep_receipts(at=timezone.now())
