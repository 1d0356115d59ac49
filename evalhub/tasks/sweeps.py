"""How a sweep is made: a task that leaves a sign of life, done or failed."""

import functools
import logging
from collections.abc import Callable
from datetime import datetime

from celery import Task
from django.db import Error
from django.utils import timezone

from evalhub.tasks import operations
from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName

logger = logging.getLogger(__name__)


def sweep(name: TaskName) -> Callable[[Callable[[], None]], "Task[[], None]"]:
    """Register a function as the sweep `name`; each of its runs ends with a row about it."""

    def registered(work: Callable[[], None]) -> "Task[[], None]":
        @functools.wraps(work)
        def recorded() -> None:
            started_at = timezone.now()
            try:
                work()
            except Exception as error:
                _record_failure(name, error, started_at=started_at)
                raise
            operations.record_sweep(name, started_at=started_at, ended_at=timezone.now())

        return app.task(name=name.value)(recorded)

    return registered


def _record_failure(name: TaskName, error: Exception, *, started_at: datetime) -> None:
    try:
        operations.record_sweep(name, started_at=started_at, ended_at=timezone.now(), error=error)
    except Error as unwritten:
        # Often why the sweep failed too, which is what is to be told.
        logger.warning("failure of %s not recorded: %s", name.value, unwritten)
