"""Each sweep leaves a sign of life, also one that fails; without them the worker is called silent."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, connection
from django.utils import timezone
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from evalhub.tasks import operations, queries
from evalhub.tasks.app import app
from evalhub.tasks.models import INSTALLATION, SweepRun
from evalhub.tasks.names import SWEEPS, TaskName
from evalhub.tasks.sweeps import sweep

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
A_MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def bound(settings: Settings, db: None) -> None:
    """Call a minute too long, and begin without the row that the migration has written."""
    settings.WORKER_SILENT_SECONDS = 60
    SweepRun.objects.all().delete()


@pytest.fixture
def failing_sweep() -> Iterator[str]:
    """Put a sweep that fails in the place of a real one; return its name."""
    name = TaskName.SWEEP_CHECKS
    real = app.tasks.pop(name.value)

    def fails() -> None:
        raise RuntimeError("GitHub's\x00 answer\n is odd")

    sweep(name)(fails)
    yield name.value
    app.tasks.pop(name.value)
    app.tasks.register(real)


@pytest.mark.parametrize("name", SWEEPS)
def test_each_sweep_leaves_a_sign_of_life(name: TaskName) -> None:
    before = timezone.now()

    app.tasks[name.value].delay()

    row = SweepRun.objects.get(name=name.value)
    assert row.finished_at is not None
    assert before <= row.started_at <= row.finished_at <= timezone.now()
    assert (row.failed_at, row.error) == (None, "")


def test_failed_sweep_says_why_and_is_told_to_celery(failing_sweep: str) -> None:
    with pytest.raises(RuntimeError, match="answer"):
        app.tasks[failing_sweep].delay()

    row = SweepRun.objects.get(name=failing_sweep)
    assert row.finished_at is None
    assert row.failed_at is not None
    assert row.error == "RuntimeError: GitHub's answer is odd"


def test_success_clears_the_error_and_keeps_when_it_failed() -> None:
    failed_at, done_at = NOON, NOON + A_MINUTE
    error = RuntimeError("x" * 2000)
    operations.record_sweep(
        TaskName.SWEEP_CHECKS, started_at=failed_at, ended_at=failed_at, error=error
    )
    assert len(SweepRun.objects.get().error) == 500

    operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=done_at, ended_at=done_at)

    row = SweepRun.objects.get()
    assert (row.error, row.failed_at, row.finished_at) == ("", failed_at, done_at)


def test_sign_of_life_costs_one_write(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=NOON, ended_at=NOON)

    with django_assert_num_queries(1):
        operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=NOON, ended_at=NOON + A_MINUTE)


def test_failure_that_cannot_be_recorded_is_still_told(
    failing_sweep: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseError("no such table")

    with (
        caplog.at_level(logging.WARNING),
        connection.execute_wrapper(refuse),
        pytest.raises(RuntimeError, match="answer"),
    ):
        app.tasks[failing_sweep].delay()

    assert [r.getMessage() for r in caplog.records] == [
        f"failure of {failing_sweep} not recorded: no such table"
    ]


def test_worker_is_silent_once_no_sweep_was_done_for_too_long(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=NOON, ended_at=NOON)
    operations.record_sweep(
        TaskName.SWEEP_ATTEMPTS, started_at=NOON - A_MINUTE, ended_at=NOON - A_MINUTE
    )

    with django_assert_num_queries(1):
        assert queries.worker_silence(NOON + A_MINUTE) is None
    assert queries.worker_silence(NOON + 4 * A_MINUTE) == 4 * A_MINUTE


def test_sweep_of_another_release_is_no_sign_of_life() -> None:
    SweepRun.objects.create(name="gates.sweep_forgotten", started_at=NOON, finished_at=NOON)
    operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=NOON, ended_at=NOON - 2 * A_MINUTE)

    assert queries.worker_silence(NOON) == 2 * A_MINUTE


def test_worker_that_was_never_heard_is_silent_since_the_installation() -> None:
    SweepRun.objects.create(name=INSTALLATION, started_at=NOON, finished_at=NOON)

    assert queries.worker_silence(NOON + A_MINUTE) is None
    assert queries.worker_silence(NOON + 2 * A_MINUTE) == 2 * A_MINUTE
    assert queries.sweep_runs() == []


def test_migration_notes_the_installation() -> None:
    migration = import_module("evalhub.tasks.migrations.0002_note_the_installation")

    for _ in range(2):
        migration.note_the_installation(apps, None)

    at = timezone.now()
    assert queries.worker_silence(at) is None
    assert queries.worker_silence(at + 2 * A_MINUTE) is not None


def test_sweep_that_fails_for_too_long_is_named() -> None:
    lasting, passing = TaskName.SWEEP_CHECKS, TaskName.SWEEP_ATTEMPTS
    error = RuntimeError("odd")
    for name, done_at in ((lasting, NOON - 5 * A_MINUTE), (passing, NOON - A_MINUTE / 2)):
        operations.record_sweep(name, started_at=done_at, ended_at=done_at)
        operations.record_sweep(name, started_at=NOON, ended_at=NOON, error=error)

    state = queries.worker_state(NOON)

    assert state.silent_for is None
    assert [run.name for run in state.failing] == [lasting.value]
