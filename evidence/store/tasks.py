"""Tasks of this room."""

from django.utils import timezone

from evalhub.tasks.names import TaskName
from evalhub.tasks.sweeps import sweep
from evidence.store.operations import (
    counting,
    documents,
    orphans,
    receipts,
    removals,
    retention,
    secrets,
)


@sweep(TaskName.SWEEP_RECEIPTS)
def sweep_receipts() -> None:
    """Write the receipt objects that a crash or an absent object store left out. Safe to repeat."""
    receipts.sweep_receipts(at=timezone.now())


@sweep(TaskName.SWEEP_DOCUMENTS)
def sweep_documents() -> None:
    """Write what else is absent beside the segments, or behind the rows. Safe to repeat."""
    documents.sweep_documents(at=timezone.now())


@sweep(TaskName.SWEEP_ORPHANS)
def sweep_orphans() -> None:
    """Take in what was stored and never answered, since a process died in between. Safe to repeat."""
    orphans.sweep_orphans(at=timezone.now())


@sweep(TaskName.SWEEP_STORAGE)
def sweep_storage() -> None:
    """Count what came, and order away what is older than its project keeps. Safe to repeat."""
    counting.count_stored()
    retention.sweep_retention(at=timezone.now())


@sweep(TaskName.SWEEP_REMOVALS)
def sweep_removals() -> None:
    """Remove the bytes that were ordered away, some at a time. Safe to repeat."""
    removals.sweep_removals(at=timezone.now())


@sweep(TaskName.SWEEP_SECRETS)
def sweep_secrets() -> None:
    """Look for secrets in what nobody has looked at: large attachments, older evidence. Safe to repeat."""
    secrets.look_at_items(at=timezone.now())
