"""`make bench-growth`: what pages, uploads and conclusions cost with few and with many runs stored.

Both stores are worked on in one process, in turn, so that whatever else the machine does hits both
alike. Ends with 1 where a median is beyond GOAL times that of the small store.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import django

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.settings"
    django.setup()

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext, setup_test_environment
from django.utils import timezone

from evalhub.growth.operations import LARGEST
from evalhub.tasks.app import app
from evalhub.tasks.names import SWEEPS
from lanes.plans.models import Plan
from lanes.projects.models import Project
from tests.bench import workload
from tests.bench.stores import SMALL, Store, postgres_stores, sqlite_stores

GOAL = 1.5
BOUNDED = {"metrics"}
"""Not judged: they read up to a thousand refusals, and a small store has fewer."""
_NOISE_SECONDS = 0.001
"""What a millisecond more is worth: nothing, even where it is twice as much."""


class Measured:
    """How long something took in one store, each time, and how many statements it needs."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.queries = 0

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def p95(self) -> float:
        return sorted(self.seconds)[int(0.95 * (len(self.seconds) - 1))]


class Action(NamedTuple):
    """What is measured, and what has to be done before that is not."""

    what: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


class Visitor:
    """Does the same things in one store, again and again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.use()
        user, _ = User.objects.get_or_create(username="bench", is_superuser=True)
        self._client = Client()
        self._client.force_login(user)
        self._project = Project.objects.get(name="generated/agent-0")
        self._number = int(timezone.now().timestamp() * 1000)
        shown = workload.whole_plan(self._client, self._project, number=self._number)
        self.actions = self._actions(shown)
        self.measured = {name: Measured() for name in self.actions}

    def measure(self, name: str) -> None:
        """Do it once and note how long it took."""
        self.store.use()
        action = self.actions[name]
        action.prepare()
        began = time.perf_counter()
        action.what()
        self.measured[name].seconds.append(time.perf_counter() - began)

    def count(self, name: str) -> None:
        """Do it once and note how many statements it needed."""
        self.store.use()
        self.actions[name].prepare()
        with CaptureQueriesContext(connection) as queries:
            self.actions[name].what()
        self.measured[name].queries = len(queries)

    def _actions(self, shown: workload.Registered) -> dict[str, Action]:
        """Return everything by name, in an order in which it can be done."""
        pages = {
            "home": "/",
            **workload.lists(list(Project.objects.order_by("pk")), older=2),
            **workload.pages(shown.digest),
            "plan of half a year ago": f"/plans/{_plan_of_half_a_year_ago()}/",
        }
        endpoints = workload.endpoints(shown.digest)
        headers = {"Authorization": f"Bearer {shown.token}"}
        return {
            **{name: Action(partial(self._get, path)) for name, path in pages.items()},
            **{name: Action(partial(self._get, path, headers)) for name, path in endpoints.items()},
            "registration": Action(self._register),
            "upload of 192 runs": Action(self._send_records, prepare=self._begin),
            "last seal and conclusion": Action(self._seal, prepare=self._send_transcripts),
            **{f"sweep: {sweep}": Action(app.tasks[sweep].delay) for sweep in SWEEPS},
        }

    def _get(self, path: str, headers: Mapping[str, str] | None = None) -> None:
        answer = self._client.get(path, headers=headers)
        assert answer.status_code in (200, 302), f"{path} answered {answer.status_code}"

    def _register(self) -> None:
        self._number += 1
        self._plan = workload.register(self._client, self._project, number=self._number)

    def _begin(self) -> None:
        lane, advisory = workload.SHAPE.lanes
        workload.deliver(self._client, workload.begin(self._client, self._plan, advisory))
        self._attempt = workload.begin(self._client, self._plan, lane)

    def _send_records(self) -> None:
        workload.send(self._client, self._attempt, 1)

    def _send_transcripts(self) -> None:
        workload.send(self._client, self._attempt, 2)

    def _seal(self) -> None:
        workload.seal(self._client, self._attempt)
        assert Plan.objects.get(digest=self._plan.digest).conclusion is not None


def _plan_of_half_a_year_ago() -> str:
    """Return the digest of a plan like the one that is shown, from the middle of the store."""
    alike = Plan.objects.filter(suite_name=workload.SHAPE.suite, state="CONCLUDED")
    before = timezone.now() - timedelta(days=180)
    found = alike.filter(registered_at__lte=before, pull_request__isnull=False)
    return found.order_by("-registered_at").values_list("digest", flat=True)[0]


def compared(stores: tuple[Store, Store], *, rounds: int) -> bool:
    """Measure both stores and print what came out; say whether the goal is kept."""
    small, large = visitors = [Visitor(store) for store in stores]
    for turn in range(rounds + 1):
        for name in small.actions:
            # Each goes first every other time; the first turn fills caches and is not counted.
            for visitor in visitors if turn % 2 else reversed(visitors):
                visitor.measure(name) if turn else visitor.count(name)
        print(f"\r{turn} of {rounds} rounds", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{'':34} {'':>14} {stores[0].runs:>17,} {stores[1].runs:>17,} runs")
    print(f"{'':34} {'queries':>14} {'median    p95':>17} {'median    p95':>17}  ratio")
    is_kept = True
    for name, few in small.measured.items():
        many = large.measured[name]
        ratio = many.median / few.median
        has_grown = ratio > GOAL and many.median - few.median > _NOISE_SECONDS
        is_beyond = has_grown and name not in BOUNDED
        is_kept &= not is_beyond
        queries = f"{few.queries} / {many.queries}"
        print(
            f"{name:34} {queries:>14} {_ms(few)} {_ms(many)}  {ratio:5.2f}"
            f"{'  beyond the goal' if is_beyond else ''}"
        )
    return is_kept


def _ms(measured: Measured) -> str:
    return f"{1000 * measured.median:8.1f} {1000 * measured.p95:8.1f}"


def main() -> int:
    """Measure what was asked for; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path("data/growth"))
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    options = parser.parse_args()
    if not SMALL < options.runs <= LARGEST:
        parser.error(f"--runs takes a number above {SMALL} up to {LARGEST}")
    setup_test_environment()
    app.loader.import_default_modules()
    kinds = {"sqlite": sqlite_stores, "postgres": postgres_stores}
    wanted = kinds if options.database == "both" else {options.database: kinds[options.database]}
    is_kept = True
    for name, opened in wanted.items():
        with opened(options.data.absolute(), runs=options.runs) as stores:
            print(f"\n{name}: milliseconds over {options.rounds} rounds; the goal is {GOAL}")
            is_kept &= compared(stores, rounds=options.rounds)
            for store in stores:
                store.connection.close()
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
