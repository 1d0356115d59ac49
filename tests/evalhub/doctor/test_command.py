"""`manage.py doctor` as an operator runs it: from nothing at all to a sound installation."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from evalhub.doctor import report
from evalhub.doctor.findings import Finding, ok, warning, wrong
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, about, sentences, told
from tests.programs.evalhub import Evalhub
from tests.programs.postgres import PostgresServer
from tests.programs.processes import wait_for
from tests.programs.redis import RedisServer

FINDINGS = [
    ok("clock", "It is right."),
    warning("disk", "It is nearly full.", fix="Make room."),
    wrong("worker", "It is silent.", fix="Start one."),
]


def reported(findings: list[Finding], *, as_json: bool) -> tuple[int, str]:
    said: list[str] = []
    code = report.write(findings, said.append, as_json=as_json)
    return code, "".join(said)


def test_each_finding_is_a_line_and_its_fix_one_below() -> None:
    assert reported(FINDINGS, as_json=False) == (
        1,
        "ok       clock: It is right.\n"
        "warning  disk: It is nearly full.\n"
        "         -> Make room.\n"
        "wrong    worker: It is silent.\n"
        "         -> Start one.\n",
    )


def test_json_says_the_same() -> None:
    code, text = reported(FINDINGS[:2], as_json=True)

    assert code == 0
    assert json.loads(text) == {
        "worst": "warning",
        "findings": [
            {"subject": "clock", "level": "ok", "sentence": "It is right.", "fix": ""},
            {
                "subject": "disk",
                "level": "warning",
                "sentence": "It is nearly full.",
                "fix": "Make room.",
            },
        ],
    }


@pytest.mark.slow
def test_empty_data_directory_is_told_and_left_empty(tmp_path: Path) -> None:
    evalhub = Evalhub(tmp_path, {"CELERY_BROKER_URL": "redis://127.0.0.1:9/0"})

    code, findings = told(evalhub.environment)

    assert code == 1
    wrongs = sentences(findings, WRONG)
    assert f"There is no database at {tmp_path}/data/evalhub.sqlite3 yet." in wrongs
    assert f"None are collected in {tmp_path}/static" in wrongs
    assert "The broker at redis://127.0.0.1:9/0 does not answer" in wrongs
    assert not (tmp_path / "data" / "evalhub.sqlite3").exists()


@pytest.mark.slow
def test_addresses_that_cannot_be_read_are_all_told_without_their_passwords(tmp_path: Path) -> None:
    wrong_ones = {"CELERY_BROKER_URL": "redis:geheim", "DATABASE_URL": "mysql://u:geheim@db/x"}

    code, findings = told(Evalhub(tmp_path, wrong_ones).environment)

    said = sentences(findings, WRONG)
    assert code == 1
    assert "CELERY_BROKER_URL takes redis://:password@host:port/0" in said
    assert "DATABASE_URL takes postgresql://" in said
    assert "geheim" not in said


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Evalhub]:
    """An installation on a PostgreSQL and a Redis, with its tables and static files."""
    with (
        PostgresServer(tmp_path / "postgres", durable=True) as postgres,
        RedisServer(tmp_path / "redis") as redis,
    ):
        evalhub = Evalhub(tmp_path / "evalhub", postgres.environment, redis.environment)
        evalhub.prepare()
        yield evalhub


@pytest.mark.journey
def test_installation_comes_up_part_by_part(shared: Evalhub) -> None:
    # As if it had been set up a while ago.
    with psycopg.connect(shared.environment["DATABASE_URL"], autocommit=True) as database:
        database.execute(
            "UPDATE evalhub_tasks_sweeprun SET finished_at = finished_at - interval '10 minutes'"
        )
    with shared.process("web") as web:
        environment = {**shared.environment, "EVALHUB_PUBLIC_URL": web.url}
        code, findings = told(environment)
        assert code == 1
        assert sentences(findings, WRONG).endswith("No worker answers.")

        with shared.process("worker"):
            code, findings = told(environment)
            assert code == 1
            assert sentences(findings, WRONG).endswith("no beat runs.")

            with shared.process("beat"):
                assert wait_for(lambda: told(environment)[0] == 0, 60), told(environment)
                _, findings = told(environment)

    assert {finding.level for finding in findings} <= {OK, WARNING}
    assert about("proxy", findings)[0].sentence == f"{web.url} answers, and knows its own address."
    assert about("worker", findings)[0].level is OK
    assert "max_connections" not in sentences(findings, WRONG)
