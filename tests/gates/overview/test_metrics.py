"""What Prometheus reads: true numbers of rows, NaN or nothing where there is none, never a 500."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.samples import Sample
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName
from evidence.store.models import StorageFault, StorageOperation
from gates.checks.models import Check
from gates.checks.operations.desired import desire_check
from gates.overview.metrics import DESCRIPTIONS
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from tests.architecture.sources import ROOT
from tests.evidence.factories import make_refusal
from tests.gates.checks.factories import make_checked_project
from tests.lanes.factories import make_attempt, make_plan
from tests.programs.evalhub import Evalhub, EvalhubProcess
from tests.programs.postgres import PostgresServer

pytestmark = pytest.mark.django_db

OPENMETRICS = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"


def samples(text: str) -> Iterator[Sample]:
    for family in parser.text_string_to_metric_families(text):
        yield from family.samples


def scraped(client: Client) -> dict[str, dict[tuple[str, ...], float]]:
    """Return every number by name and values of its labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples(response.content.decode()):
        found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def number(client: Client, name: str, *labels: str) -> float:
    return scraped(client)[name][labels]


def test_every_described_number_is_there_and_no_other(client: Client) -> None:
    SweepRun.objects.create(name=TaskName.SWEEP_CHECKS.value, started_at=timezone.now(), error="")

    assert set(scraped(client)) == set(DESCRIPTIONS)
    assert number(client, "evalhub_metrics_complete") == 1


@pytest.mark.parametrize(
    ("accept", "content_type", "parse"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", parser.text_string_to_metric_families),
        (
            "text/plain;version=nonsense",
            "text/plain; version=0.0.4; charset=utf-8",
            parser.text_string_to_metric_families,
        ),
        (
            OPENMETRICS,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            openmetrics_parser.text_string_to_metric_families,
        ),
    ],
)
def test_format_follows_what_is_accepted(
    client: Client, accept: str, content_type: str, parse: Callable[[str], Iterator[Any]]
) -> None:
    response = client.get("/metrics", headers={"Accept": accept})

    assert response["Content-Type"] == content_type
    families = list(parse(response.content.decode()))
    assert "evalhub_database_up" in {family.name for family in families}
    assert all(family.documentation for family in families)


def test_nothing_that_waits_is_no_number(client: Client) -> None:
    ages = [name for name in DESCRIPTIONS if name.startswith("evalhub_oldest_")]

    assert len(ages) == 3
    assert all(math.isnan(number(client, name)) for name in ages)


def test_ages_are_those_of_the_oldest_rows(client: Client) -> None:
    at = timezone.now()
    plan = make_plan(make_checked_project(), at=at - timedelta(minutes=30))
    desire_check(plan, at=at - timedelta(minutes=20))
    lifecycle.close_plan(plan, at=at - timedelta(minutes=10))

    assert number(client, "evalhub_oldest_undelivered_check_seconds") == pytest.approx(1200, abs=60)
    assert number(client, "evalhub_oldest_unconcluded_plan_seconds") == pytest.approx(600, abs=60)
    assert number(client, "evalhub_open_plans", "registered") == 1


def test_age_of_the_future_is_nothing_waited(client: Client) -> None:
    plan = make_plan(make_checked_project())
    desire_check(plan, at=timezone.now() + timedelta(minutes=5))

    assert number(client, "evalhub_oldest_undelivered_check_seconds") == 0


def test_sweeps_say_when_they_were_done_and_whether_they_fail(client: Client) -> None:
    SweepRun.objects.all().delete()
    assert math.isnan(number(client, "evalhub_worker_silence_seconds"))
    assert "evalhub_sweep_failing" not in scraped(client)

    at = timezone.now()
    for name, minutes, error in (("SWEEP_CHECKS", 8, "odd"), ("SWEEP_ATTEMPTS", 3, "")):
        done_at = at - timedelta(minutes=minutes)
        SweepRun.objects.create(
            name=TaskName[name].value, started_at=at, finished_at=done_at, error=error
        )

    silence = scraped(client)["evalhub_sweep_silence_seconds"]
    assert silence["gates.sweep_checks",] == pytest.approx(480, abs=60)
    assert number(client, "evalhub_worker_silence_seconds") == pytest.approx(180, abs=60)
    assert scraped(client)["evalhub_sweep_failing"] == {
        ("gates.sweep_checks",): 1,
        ("lanes.sweep_attempts",): 0,
    }


def test_evidence_is_counted_while_it_is_recent(client: Client) -> None:
    at = timezone.now()
    make_refusal(make_attempt(make_plan(at=at), at=at), at=at)
    for minutes in (1, 5, 11):
        StorageFault.objects.create(
            at=at - timedelta(minutes=minutes), operation=StorageOperation.SEAL, sentence="away"
        )

    assert number(client, "evalhub_recent_refused_items", "unexpected") == 1
    assert number(client, "evalhub_recent_refused_items", "malformed") == 0
    assert number(client, "evalhub_recent_object_store_faults", "seal") == 2
    assert number(client, "evalhub_recent_object_store_faults", "read") == 0


def test_check_that_github_refuses_is_counted(client: Client) -> None:
    plan = make_plan(make_checked_project())
    desire_check(plan, at=timezone.now())
    Check.objects.update(next_attempt_at=None, last_error="GitHub answered 422: No commit found.")

    assert number(client, "evalhub_refused_checks") == 1


def test_disk_is_told_where_something_lies_on_it(client: Client, settings: Settings) -> None:
    settings.DATABASE_FILE, settings.S3_BUCKET = None, "evidence"
    assert "evalhub_free_disk_bytes" not in scraped(client)

    settings.S3_BUCKET = ""
    free, size = (
        number(client, f"evalhub_{name}_bytes", "objects") for name in ("free_disk", "disk_size")
    )
    assert 0 < free < size

    settings.DATABASE_FILE = settings.DATA_DIR / "evalhub.sqlite3"
    assert number(client, "evalhub_free_disk_bytes", "database") > 0


def test_token_is_asked_for_where_there_is_one(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = "correct-hörse"

    refused = [
        client.get("/metrics", headers={"Authorization": given})
        for given in ("", "Bearer", "Bearer wrong", "Bearer \udcff", "Basic correct-hörse")
    ]
    taken = client.get("/metrics", headers={"Authorization": "Bearer correct-hörse"})

    assert {response.status_code for response in refused} == {401}
    assert {response["WWW-Authenticate"] for response in refused} == {"Bearer"}
    assert b"evalhub_open_plans" not in refused[0].content
    assert taken.status_code == 200


def test_no_project_is_named(client: Client) -> None:
    plan = make_plan(make_checked_project())
    desire_check(plan, at=timezone.now())

    assert plan.project.name not in client.get("/metrics").content.decode()


def test_numbers_of_a_table_that_is_not_there_are_left_out(client: Client) -> None:
    def refuse(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "lanes_projects_delivery" in sql:
            raise OperationalError("no such table")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        found = scraped(client)

    assert found["evalhub_metrics_complete"] == {(): 0}
    assert found["evalhub_database_up"] == {(): 1}
    assert "evalhub_oldest_unsent_notice_seconds" not in found
    assert "evalhub_open_plans" in found


def test_scrape_takes_the_same_few_queries_for_more_rows(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        make_attempt(make_plan())

    with django_assert_max_num_queries(11):
        client.get("/metrics")


SCRAPE = """
import django
django.setup()
from django.test import Client
response = Client().get("/metrics", headers={"host": "localhost"})
print(response.status_code)
print(response.content.decode())
"""


@pytest.mark.slow
def test_scrape_without_a_database_says_so_and_what_else_is_known(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "evalhub.settings",
        "EVALHUB_DATA": str(tmp_path),
        # Port 9 discards: nothing of ours listens there.
        "DATABASE_URL": "postgresql://nobody:s3cret@127.0.0.1:9/none",
    }

    answer = subprocess.run(
        [sys.executable, "-c", SCRAPE],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert answer.returncode == 0, answer.stderr
    status, _, text = answer.stdout.partition("\n")
    found = {sample.name: sample.value for sample in samples(text)}
    assert status == "200"
    assert (found.pop("evalhub_database_up"), found.pop("evalhub_metrics_complete")) == (0, 0)
    assert set(found) == {
        "evalhub_build_info",
        "evalhub_free_disk_bytes",
        "evalhub_disk_size_bytes",
    }
    assert "s3cret" not in answer.stdout + answer.stderr


def asked(web: EvalhubProcess, path: str) -> tuple[int, str]:
    answer = httpx.get(f"{web.url}{path}", trust_env=False, timeout=30)
    return answer.status_code, answer.text


@pytest.mark.journey
def test_scrapes_go_on_while_the_database_is_away_and_when_it_comes_back(tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "postgres", tcp=True, durable=True) as postgres:
        evalhub = Evalhub(tmp_path / "evalhub", postgres.environment)
        evalhub.prepare()
        with evalhub.process("web") as web:
            status, text = asked(web, "/metrics")
            assert (status, "evalhub_database_up 1.0" in text) == (200, True)
            assert asked(web, "/readyz") == (200, "ready\n")

            postgres.kill()
            # On connections that it had, and on new ones.
            for _ in range(3):
                status, text = asked(web, "/metrics")
                assert (status, "evalhub_database_up 0.0" in text) == (200, True)
                assert "evalhub_open_plans{" not in text
                assert asked(web, "/readyz")[0] == 503
            assert asked(web, "/healthz") == (200, "ok\n")

            postgres.start()
            assert "evalhub_metrics_complete 1.0" in asked(web, "/metrics")[1]
            assert asked(web, "/readyz") == (200, "ready\n")


def test_plans_of_another_kind_are_open_too(client: Client) -> None:
    plan = make_plan()
    make_attempt(plan)
    Plan.objects.filter(pk=plan.pk).update(kind="rejudge")

    assert number(client, "evalhub_open_plans", "running") == 1
    assert number(client, "evalhub_open_attempts", "open") == 1
