"""What the database says of itself: whether it answers, and whether it has this release's tables."""

import logging
from functools import cache

from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

logger = logging.getLogger(__name__)


def failure() -> Error | None:
    """Return what went wrong with the simplest of questions; None if the database answers it.

    What the driver says names hosts and files: it is for the log and for whoever runs the server.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as error:
        logger.warning("the database did not answer: %s", str(error).strip())
        return error
    return None


def unapplied_migrations() -> list[str]:
    """Return the migrations of this release that the database has not seen, as `app.name`."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [f"{app}.{name}" for app, name in _released_migrations() if (app, name) not in applied]


@cache
def _released_migrations() -> list[tuple[str, str]]:
    # Files of this release: they do not change while it runs.
    return sorted(MigrationLoader(None).disk_migrations)
