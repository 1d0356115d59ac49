"""Is the process there, and can it work?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

ROOT = Path(__file__).resolve().parents[3]
ASK = """
import django
django.setup()
from django.test import Client
for path in ("/healthz", "/readyz"):
    response = Client().get(path, headers={"host": "localhost"})
    print(response.status_code, response.content.decode().strip().splitlines()[0])
"""


@pytest.mark.django_db
def test_health_asks_nobody(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        response = client.get("/healthz")

    assert (response.status_code, response.content) == (200, b"ok\n")


@pytest.mark.slow
def test_process_without_its_database_is_healthy_and_not_ready(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "evalhub.settings",
        "EVALHUB_DATA": str(tmp_path),
        # Port 9 discards: nothing of ours listens there.
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
    }

    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    healthy, ready = answer.stdout.splitlines()
    assert healthy == "200 ok"
    assert ready == "503 The database does not answer; the log of this process has its words."
    assert "port 9 failed" in answer.stderr
