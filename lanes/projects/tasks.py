"""Tasks: send what channels owe, and the sweep that finds what a lost message left unsent."""

from django.utils import timezone

from evalhub.tasks.app import app
from evalhub.tasks.clock_jumps import was_set_back
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.tasks.sweeps import sweep
from lanes.projects.operations import clock_jumps, deliveries, sending
from lanes.projects.queries import deliveries as delivery_queries

# The next sweep goes on.
_MOST_PER_TASK = 50


@app.task(name=TaskName.SEND_NOTICES.value)
def send_notices(*, channel_id: int) -> None:
    """Send what one channel owes, until it owes nothing or fails. Safe to repeat."""
    channel = delivery_queries.channel_with_id(channel_id)
    for _ in range(_MOST_PER_TASK):
        if not sending.send_next(channel, at=timezone.now()):
            break


@sweep(TaskName.SWEEP_NOTICES)
def sweep_notices() -> None:
    """Ask for the sending of all that is due, a task for each channel. Safe to repeat."""
    deliveries.drop_undeliverable()
    if was_set_back(TaskName.SWEEP_NOTICES, at=timezone.now()):
        clock_jumps.bring_back_deliveries(at=timezone.now())
    for channel in delivery_queries.channels_with_due_deliveries(at=timezone.now()):
        # One that is slow keeps none of the others waiting.
        enqueue_on_commit(TaskName.SEND_NOTICES, channel_id=channel.pk)
