"""Two real workers and beat find what nobody asked about: each condition becomes one notice."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.programs.evalhub import Evalhub
from tests.programs.postgres import PostgresServer
from tests.programs.processes import wait_for
from tests.programs.redis import RedisServer

pytestmark = pytest.mark.journey

# What the rows look like while no worker is there: a nightly that never came for three days, one that
# was registered and never ran, a pool of which most is spent.
STORY = """
from datetime import timedelta
from uuid import uuid4
from django.utils import timezone
from evalhub.protocol.messages import ScheduleRequest
from lanes.budget.operations import money
from lanes.budget.queries import Want
from lanes.plans.operations import schedules
from tests.lanes import factories

now = timezone.now()
project = factories.make_project("acme/support-agent", at=now - timedelta(days=4))
factories.make_suite(project, at=now - timedelta(days=4))
wanted = ScheduleRequest(cron="0 * * * *", grace_minutes=10)
schedules.put_schedule(project, "support", wanted, at=now - timedelta(days=3))
source = {"event": "schedule", "pull_request": None}
factories.make_plan(factories.make_project("acme/other"), at=now - timedelta(hours=5), source=source)
pool = factories.make_pool(project, limit_microusd=1000)
plan = "sha256:" + "1" * 64
money.reserve(project, plan, [Want(pool.name, "a", 1000)], at=now)
call = money.SettledCall(
    project, plan, "a", "att_1", uuid4(), "resolved", "llm", 850, "provider"
)
money.settle([call], at=now)
"""
SWEEPS = ("lanes.sweep_schedules", "lanes.sweep_budgets", "gates.sweep_conclusions")


def test_workers_tell_of_each_condition_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(tmp_path / "postgres", tcp=True))
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        evalhub = Evalhub(tmp_path / "evalhub", postgres.environment, redis.environment)
        evalhub.make_tables()
        evalhub.manage("shell", "--no-imports", "-c", STORY)
        for name in ("worker-1", "worker-2"):
            stack.enter_context(evalhub.process("worker", name=name))
        stack.enter_context(evalhub.process("beat"))
        connection = stack.enter_context(psycopg.connect(postgres.url, autocommit=True))

        def told() -> Counter[str]:
            rows = connection.execute("SELECT kind FROM lanes_projects_notice").fetchall()
            return Counter(kind for (kind,) in rows)

        def finished() -> dict[str, object]:
            rows = connection.execute("SELECT name, finished_at FROM evalhub_tasks_sweeprun")
            return dict(rows.fetchall())

        assert wait_for(lambda: len(told()) == 3, 60), (told(), finished())
        before = finished()
        # Every sweep was done again since.
        assert wait_for(lambda: all(finished()[name] != before.get(name) for name in SWEEPS), 60), (
            finished()
        )

        assert told() == Counter(["NIGHTLY_ABSENT", "NIGHTLY_RED", "BUDGET"])
        (detail,) = connection.execute(
            "SELECT detail FROM lanes_projects_notice WHERE kind = 'NIGHTLY_ABSENT'"
        ).fetchone() or ("",)
        assert "due times without one" in detail
