"""What a store holds beside it makes no page, upload or sweep dearer: counted, not timed."""

import io

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from evalhub.tasks.app import app
from evalhub.tasks.names import SWEEPS
from lanes.projects.models import Project
from tests.bench import workload
from tests.bench.work import Work, counted
from tests.lanes.factories import make_user

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

SMALL, ADDED = 1_500, 4_500
"""Runs: four times as many plans lie beside the same plan."""
_MORE = {"sqlite": 1.02, "postgresql": 2.0}
"""PostgreSQL chooses anew, among ways that are bounded by the plan, with each look at its tables."""
_FEW = {"sqlite": 300, "postgresql": 30}
"""Steps or rows: a page of a dozen rows takes some more or less with what they hold."""
GROWS_WITH_OPEN_PLANS = {"gates.sweep_conclusions", "gates.sweep_checks", "registration"}
"""Each generated store leaves one plan that is at work."""
SHOWS_WHAT_THERE_IS = {
    *("metrics", "newest plans", "plans not concluded"),
    *("run", "evidence.sweep_orphans", "gates.sweep_pins"),
}
"""Up to a page, five hundred attempts, or twenty baselines of a suite; the metrics count the categories of
the thousand newest refusals."""
COUNTS_WHAT_CAME = {"evidence.sweep_storage", "evidence.sweep_orphans"}
"""Some statements for each plan and class, or attempt, of which segments came since the last sweep."""


def test_work_stays_the_same_in_a_larger_store(client: Client) -> None:
    generate(runs=SMALL)
    small = done_with(client, number=1)
    generate(runs=ADDED, seed=2, add=True)
    large = done_with(client, number=2)

    scans = {name: work.scans for name, work in large.items() if work.scans}
    assert scans.keys() <= {"metrics"}, scans
    statements = {
        name: (len(small[name].statements), len(large[name].statements))
        for name in small.keys() - COUNTS_WHAT_CAME
    }
    assert {name: counts for name, counts in statements.items() if counts[0] != counts[1]} == {}
    costs = {name: (small[name].cost, large[name].cost) for name in small}
    assert all(many > 0 for _, many in costs.values())
    assert {name: cost for name, cost in costs.items() if _has_grown(name, *cost)} == {}


def generate(**options: object) -> None:
    call_command("generate", stdout=io.StringIO(), stderr=io.StringIO(), projects=1, **options)
    # A database that has been used for a while knows how large its tables are.
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def done_with(client: Client, *, number: int) -> dict[str, Work]:
    """Return the work for the same plan: registered, delivered, concluded, looked at; and for sweeps."""
    project = Project.objects.get(name="generated/agent-0")
    client.force_login(make_user(project=project))
    done: dict[str, Work] = {}
    with counted() as done["registration"]:
        registered = workload.register(client, project, number=number)
    attempt, advisory = (workload.begin(client, registered, lane) for lane in workload.SHAPE.lanes)
    workload.deliver(client, advisory)
    with counted() as done["upload of 192 runs"]:
        workload.send(client, attempt, 1)
    workload.send(client, attempt, 2)
    with counted() as done["seal and conclusion"]:
        workload.seal(client, attempt)
    pages = workload.pages(registered.digest) | workload.lists([project], older=1)
    for name, path in pages.items():
        client.get(path)
        with counted() as done[name]:
            answer = client.get(path)
        assert answer.status_code in (200, 302), path
    for name, path in workload.endpoints(registered.digest).items():
        with counted() as done[name]:
            answer = client.get(path, headers={"Authorization": f"Bearer {registered.token}"})
        assert answer.status_code == 200, path
    for sweep in SWEEPS:
        # What one finds is done the first time.
        app.tasks[sweep].delay()
        with counted() as done[sweep.value]:
            app.tasks[sweep].delay()
    return done


def _has_grown(name: str, few: int, many: int) -> bool:
    if name in GROWS_WITH_OPEN_PLANS | SHOWS_WHAT_THERE_IS:
        return False
    return many > _MORE[connection.vendor] * few + _FEW[connection.vendor]
