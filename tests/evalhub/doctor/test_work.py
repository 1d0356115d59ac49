"""The broker, the worker and beat: which of them is missing is told, and which sweep fails."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from evalhub.doctor import work
from evalhub.tasks import operations
from evalhub.tasks.app import app
from evalhub.tasks.models import INSTALLATION, SweepRun
from evalhub.tasks.names import TaskName
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, only
from tests.programs.redis import RedisServer

A_MINUTE = timedelta(minutes=1)


@pytest.fixture
def broker_url() -> Iterator[None]:
    """Put the broker's address back after the test."""
    before = app.conf.broker_url
    yield
    connect_to(before)


@pytest.fixture
def redis(tmp_path: Path, broker_url: None) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        connect_to(server.url)
        yield server


def connect_to(url: str) -> None:
    """Name the broker; connections that earlier tests have left lead to another one."""
    app.conf.update(broker_url=url)
    app._pool = None  # type: ignore[attr-defined]
    app.amqp._producer_pool = None  # type: ignore[attr-defined]


@pytest.fixture
def no_sign(settings: Settings, db: None) -> None:
    """Begin without any sign of life."""
    settings.WORKER_SILENT_SECONDS = 60
    SweepRun.objects.all().delete()


def swept(name: TaskName, *, minutes_ago: int, error: Exception | None = None) -> None:
    at = timezone.now() - minutes_ago * A_MINUTE
    operations.record_sweep(name, started_at=at, ended_at=at, error=error)


@pytest.mark.usefixtures("broker_url")
def test_broker_that_is_away_is_told_without_its_password() -> None:
    app.conf.update(broker_url="redis://:s3cret@127.0.0.1:9/0")

    finding = only(work.broker(), WRONG)

    assert finding.sentence.startswith("The broker at redis://:***@127.0.0.1:9/0 does not answer: ")
    assert "CELERY_BROKER_URL" in finding.fix
    assert "s3cret" not in str(finding)


@pytest.mark.usefixtures("broker_url")
@pytest.mark.parametrize(
    "url", ["redis://:s3c/ret@127.0.0.1:9/0", "redis://:s3cret@host:port/0", "nonsense://s3cret@x"]
)
def test_address_that_leads_to_no_broker_is_told_without_its_password(url: str) -> None:
    app.conf.update(broker_url=url)

    finding = only(work.broker(), WRONG)

    assert "CELERY_BROKER_URL" in finding.sentence
    assert "s3c" not in str(finding)


@pytest.mark.usefixtures("broker_url")
def test_socket_that_is_not_there_is_told(tmp_path: Path) -> None:
    app.conf.update(broker_url=f"redis+socket://{tmp_path}/redis.sock")

    assert "No such file or directory." in only(work.broker(), WRONG).sentence


@pytest.mark.slow
def test_broker_that_answers_is_right(redis: RedisServer) -> None:
    assert only(work.broker(), OK).sentence == f"The broker at {redis.url} answers."


@pytest.mark.usefixtures("no_sign")
def test_new_installation_is_given_time() -> None:
    at = timezone.now()
    SweepRun.objects.create(name=INSTALLATION, started_at=at, finished_at=at, error="")

    finding = only(work.sweeps(at=at, is_broker_there=True), WARNING)

    assert finding.sentence == "No sweep has been done yet; this installation is new."


@pytest.mark.usefixtures("no_sign")
def test_worker_that_was_heard_is_right() -> None:
    swept(TaskName.SWEEP_CHECKS, minutes_ago=0)

    finding = only(work.sweeps(at=timezone.now(), is_broker_there=True), OK)

    assert finding.sentence.startswith("A sweep was done ")


@pytest.mark.usefixtures("no_sign")
def test_silence_behind_an_absent_broker_is_the_brokers() -> None:
    swept(TaskName.SWEEP_CHECKS, minutes_ago=5)

    finding = only(work.sweeps(at=timezone.now(), is_broker_there=False), WRONG)

    assert "No sweep has been done for 5\xa0minutes" in finding.sentence
    assert finding.fix.startswith("Mend the broker first")


@pytest.mark.slow
@pytest.mark.usefixtures("no_sign", "redis")
def test_worker_that_does_not_answer_is_told() -> None:
    swept(TaskName.SWEEP_CHECKS, minutes_ago=5)

    finding = only(work.sweeps(at=timezone.now(), is_broker_there=True), WRONG)

    assert finding.sentence.endswith("No worker answers.")
    assert "`manage.py run worker`" in finding.fix


@pytest.mark.usefixtures("no_sign")
def test_sweep_that_keeps_failing_is_told_with_its_error() -> None:
    error = RuntimeError("cannot connect to redis://:s3cret@redis")
    swept(TaskName.SWEEP_CHECKS, minutes_ago=9)
    swept(TaskName.SWEEP_CHECKS, minutes_ago=0, error=error)
    swept(TaskName.SWEEP_ATTEMPTS, minutes_ago=0)

    finding = only(work.sweeps(at=timezone.now(), is_broker_there=True), WRONG)

    assert finding.sentence == (
        "gates.sweep_checks has not been done for 9\xa0minutes; it fails with:"
        " RuntimeError: cannot connect to redis://:***@redis."
    )
