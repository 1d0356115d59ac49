"""The frame of each page says when nobody does the work."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName
from tests.lanes import factories

pytestmark = pytest.mark.django_db
BANNER = 'role="status"'


@pytest.fixture(autouse=True)
def bound(settings: Settings, db: None) -> None:
    settings.WORKER_SILENT_SECONDS = 60
    SweepRun.objects.all().delete()


@pytest.fixture
def reader(client: Client) -> Client:
    """Return the browser of somebody who has signed in."""
    client.force_login(factories.make_user())
    return client


def make_sweep_run(name: TaskName, *, minutes_ago: int, error: str = "") -> SweepRun:
    at = timezone.now()
    done_at = at - timedelta(minutes=minutes_ago)
    return SweepRun.objects.create(
        name=name.value, started_at=done_at, finished_at=done_at, error=error
    )


def test_silent_worker_is_told_on_each_page(reader: Client) -> None:
    make_sweep_run(TaskName.SWEEP_CHECKS, minutes_ago=4)

    text = reader.get("/plans/").content.decode()

    assert BANNER in text
    assert "silent for 4\xa0minutes: conclusions and checks wait." in text
    assert "`manage.py doctor`" in text


def test_worker_that_is_heard_is_not_mentioned(reader: Client) -> None:
    make_sweep_run(TaskName.SWEEP_CHECKS, minutes_ago=4)
    make_sweep_run(TaskName.SWEEP_ATTEMPTS, minutes_ago=0)

    assert BANNER not in reader.get("/plans/").content.decode()


def test_sweep_that_keeps_failing_is_told(reader: Client) -> None:
    make_sweep_run(TaskName.SWEEP_CHECKS, minutes_ago=7, error="<b>Odd</b>")
    make_sweep_run(TaskName.SWEEP_ATTEMPTS, minutes_ago=0)

    text = reader.get("/plans/").content.decode()

    assert "failing for 7\xa0minutes (gates.sweep_checks)" in text
    assert "Odd" not in text


def test_stranger_hears_nothing_of_the_worker(client: Client) -> None:
    make_sweep_run(TaskName.SWEEP_CHECKS, minutes_ago=4)

    assert BANNER not in client.get("/sign-in/").content.decode()


def test_page_does_not_fail_where_the_table_is_not_yet_there(reader: Client) -> None:
    def refuse(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "evalhub_tasks_sweeprun" in sql:
            raise DatabaseError("no such table")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        response = reader.get("/plans/")

    assert response.status_code == 200
    assert BANNER not in response.content.decode()
