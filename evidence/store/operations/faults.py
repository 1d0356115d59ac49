"""Faults of the object store, written down for whoever runs the server."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import DatabaseError, InterfaceError

from evidence.store.models import StorageFault, StorageOperation
from evidence.store.queries import EvidenceDamagedError
from evidence.store.storage import StorageUnavailableError

logger = logging.getLogger(__name__)

MOST_KEPT = 1000
"""A store that is away for hours fails thousands of requests; the newest tell enough."""
_LONGEST_SENTENCE = 500


@contextmanager
def noted(operation: StorageOperation, *, clock: Callable[[], datetime]) -> Iterator[None]:
    """Note it if the object store fails or has lost something in this block; the error goes on.

    Around a whole request or task, never inside a transaction: what failed rolls back, the note is
    to stay. `clock` is asked only then. Also a decorator.
    """
    try:
        yield
    except (StorageUnavailableError, EvidenceDamagedError) as error:
        note_fault(operation, error, at=clock())
        raise


def note_fault(
    operation: StorageOperation,
    error: StorageUnavailableError | EvidenceDamagedError,
    *,
    at: datetime,
) -> None:
    """Write a fault down, unless the database is away too; the log has it in any case."""
    cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
    sentence = f"{error.detail}{cause}"
    logger.warning("object store failed: %s: %s", operation.value, sentence)
    try:
        fault = StorageFault.objects.create(
            at=at, operation=operation, sentence=sentence[:_LONGEST_SENTENCE]
        )
        StorageFault.objects.filter(pk__lte=fault.pk - MOST_KEPT).delete()
    except (DatabaseError, InterfaceError) as refused:
        logger.warning("a fault of the object store could not be noted: %s", refused)
