"""A process that removes bytes until it is killed; run as a program by `test_removal_crash.py`.

`prepare` makes the database and plans, orders one of them away, and prints what is stored. `remove`
carries the order out and says so for each segment. `verify` prints what is wrong, and what is left.
All of it below EVALHUB_TEST_DATA.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from evalhub.protocol.faults import parse_document  # noqa: E402
from evalhub.protocol.tombstones import Cause, RemovalScope, Tombstone  # noqa: E402
from evalhub.tasks.app import app  # noqa: E402
from evidence.store import queries  # noqa: E402
from evidence.store.models import Item, Removal, Segment  # noqa: E402
from evidence.store.operations import counting, objects, purging, removals  # noqa: E402
from evidence.store.operations.check_store import Looked, store_findings  # noqa: E402
from evidence.store.operations.findings import Scope  # noqa: E402
from evidence.store.operations.removals import Why  # noqa: E402
from evidence.store.storage import object_store  # noqa: E402
from tests.evidence.factories import make_run, run_keys  # noqa: E402
from tests.lanes.factories import NOW, make_attempt, make_plan  # noqa: E402

RUNS = 60


def prepare() -> None:
    call_command("migrate", verbosity=0)
    app.loader.import_default_modules()
    plan = make_plan(scenarios=[("order-lookup", "orders")], epochs=RUNS)
    attempt = make_attempt(plan)
    for key in run_keys(attempt):
        make_run(attempt, key)
    kept = make_attempt(make_plan())
    make_run(kept)
    counting.count_stored()
    # Of the rows alone: nothing that is asked for on commit is to carry it out here.
    stock = purging.one_attempt(plan, attempt.key).stock
    why = Why(Cause.PURGE, RemovalScope.ATTEMPT, attempt.key, "user:maintainer", "A name.")
    removals.order_removal(plan, stock, why, at=NOW)
    say({"ordered": Removal.objects.get().segments})


def remove() -> None:
    removal = Removal.objects.select_related("plan__project").get()
    while removals.carry_out(removal, most=1, at=NOW):
        say("gone")


def verify() -> None:
    wrong = [str(f) for f in store_findings(Scope(), looked=Looked())]
    for row in Segment.objects.filter(removal__isnull=False):
        is_there = object_store().exists(row.object_key)
        if row.gone_at is not None and is_there:
            wrong.append(f"{row} is said to be gone and is there")
        if not is_there and not _has_whole_tombstone(row):
            wrong.append(f"{row} is gone without a tombstone that tells all of it")
    for item in Item.objects.filter(segment__removal__isnull=True).select_related("segment"):
        queries.item_bytes(item)
    gone = Segment.objects.filter(gone_at__isnull=False).count()
    counted = sum(
        use.removed_segments for use in queries.storage_of_plan(Removal.objects.get().plan)
    )
    finished = Removal.objects.get().finished_at is not None
    say({"wrong": wrong, "gone": gone, "counted": counted, "finished": finished})


def _has_whole_tombstone(row: Segment) -> bool:
    key = objects.tombstone_key(row.object_key)
    with object_store().open(key) as file:
        return parse_document(Tombstone, file.read()).is_whole


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"prepare": prepare, "remove": remove, "verify": verify}[sys.argv[1]]()
