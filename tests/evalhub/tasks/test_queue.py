"""A task is asked for when the transaction commits, and a broker that is away is no fault."""

import logging
from collections.abc import Iterator

import pytest
from django.db import transaction

from evalhub.tasks.app import app
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def absent_broker() -> Iterator[None]:
    """Point Celery to a port where nobody listens: what is sent shows as a warning."""
    before = {name: app.conf[name] for name in ("broker_url", "task_always_eager")}
    app.conf.update(broker_url="redis://127.0.0.1:9/0", task_always_eager=False)
    yield
    app.conf.update(before)


@pytest.mark.usefixtures("absent_broker")
def test_absent_broker_is_logged_and_left_to_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), transaction.atomic():
        enqueue_on_commit(TaskName.SWEEP_CHECKS)
        before_commit = list(caplog.records)

    assert before_commit == []
    (record,) = caplog.records
    assert record.getMessage().startswith("task not queued, left to its sweep: gates.sweep_checks")


@pytest.mark.usefixtures("absent_broker")
def test_nothing_is_asked_for_when_the_transaction_rolls_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), transaction.atomic():
        enqueue_on_commit(TaskName.SWEEP_CHECKS)
        transaction.set_rollback(True)

    assert caplog.records == []
