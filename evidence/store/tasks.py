"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from evidence.store.operations import documents, receipts


@sweep(TaskName.SWEEP_RECEIPTS)
def sweep_receipts() -> None:
    """Write the receipt objects that a crash or an absent object store left out. Safe to repeat."""
    receipts.sweep_receipts(at=timezone.now())


@sweep(TaskName.SWEEP_DOCUMENTS)
def sweep_documents() -> None:
    """Write what else is absent beside the segments, or behind the rows. Safe to repeat."""
    documents.sweep_documents(at=timezone.now())
