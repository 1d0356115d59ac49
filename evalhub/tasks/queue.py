"""How a task is asked for: once the transaction commits, or not at all."""

import logging

from django.db import transaction
from kombu.exceptions import OperationalError

from evalhub.tasks import trail
from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName

logger = logging.getLogger(__name__)


def enqueue_on_commit(name: TaskName, **arguments: str | int) -> None:
    """Send a task once the current transaction commits; not at all if it rolls back.

    A broker that is away is logged and otherwise ignored: the row is the fact, a sweep finds it.
    """
    transaction.on_commit(lambda: _send(name, arguments))


def _send(name: TaskName, arguments: dict[str, str | int]) -> None:
    # The task's lines in the log name the request that asked for it.
    asked_by = {key: value for key, value in trail.current().items() if key == "request_id"}
    try:
        app.signature(name.value, kwargs=arguments).apply_async(retry=False, headers=asked_by)
    except OperationalError as error:
        logger.warning("task not queued, left to its sweep: %s: %s", name.value, error)
