"""A process that receives segments until it is killed; run as a program by `test_crash.py`.

`prepare` makes the database, a plan and an attempt and prints the attempt's key. `receive KEY FROM`
receives one segment after the other and prints each receipt once the operation has returned it.
`verify KEY` reads everything back and prints what it found. All of it below EVALHUB_TEST_DATA.
"""

import json
import os
import sys
from uuid import NAMESPACE_URL, uuid5

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from evalhub.protocol.canonical import bytes_digest  # noqa: E402
from evalhub.protocol.paths import run_folder  # noqa: E402
from evalhub.tasks.app import app  # noqa: E402
from evidence.store import queries  # noqa: E402
from evidence.store.models import Item, JudgeCall, Run, Score, Segment  # noqa: E402
from evidence.store.operations import receipts  # noqa: E402
from evidence.store.operations.objects import receipt_key  # noqa: E402
from evidence.store.storage import object_store  # noqa: E402
from lanes.budget.models import LedgerEntry  # noqa: E402
from lanes.plans import queries as plans_queries  # noqa: E402
from lanes.plans.models import Attempt  # noqa: E402
from tests.evidence.factories import (  # noqa: E402
    judge_line,
    make_segment,
    ndjson,
    result_bytes,
    run_keys,
    send_segment,
)
from tests.lanes.factories import NOW, make_attempt, make_plan  # noqa: E402

RUNS = 600


def prepare() -> None:
    say({"attempt": prepared()})


def prepared(runs: int = RUNS) -> str:
    """Make the database, a plan of so many runs and an attempt; return the attempt's key."""
    call_command("migrate", verbosity=0)
    app.loader.import_default_modules()
    plan = make_plan(scenarios=[("order-lookup", "orders")], epochs=runs)
    return make_attempt(plan).key


def receive(attempt_key: str, first_seq: int) -> None:
    attempt = plans_queries.attempt_with_key(attempt_key)
    for seq in range(first_seq, RUNS + 1):
        say(
            json.loads(
                send_segment(attempt, segment(attempt, seq), seq=seq).receipt.model_dump_json()
            )
        )


def verify(attempt_key: str) -> None:
    attempt = plans_queries.attempt_with_key(attempt_key)
    receipts.sweep_receipts(at=NOW)
    rows = Segment.objects.filter(attempt=attempt).order_by("seq")
    say({"segments": [verified(row, attempt) for row in rows], "counts": counts()})


def segment(attempt: Attempt, seq: int) -> bytes:
    """Return the bytes of a segment, the same in every process."""
    folder = run_folder(run_keys(attempt)[seq - 1])
    line = judge_line(1.0, call_id=str(uuid5(NAMESPACE_URL, str(seq))), cost_microusd=seq)
    members = {f"{folder}/result.json": result_bytes(), f"{folder}/judge.1.ndjson": ndjson(line)}
    return make_segment(attempt, members, seq=seq)


def verified(row: Segment, attempt: Attempt) -> dict[str, object]:
    """Return the receipt of a row, once everything that it promises was read back."""
    with object_store().open(row.object_key) as file:
        assert bytes_digest(file.read()) == row.sha256 == bytes_digest(segment(attempt, row.seq))
    with object_store().open(receipt_key(row.object_key)) as file:
        assert json.load(file) == row.receipt
    items = list(Item.objects.filter(segment=row).select_related("segment"))
    assert len(items) == row.receipt["accepted"] == 2
    for item in items:
        assert queries.item_bytes(item)
    receipt: dict[str, object] = row.receipt
    return receipt


def counts() -> dict[str, int]:
    return {
        "runs": Run.objects.count(),
        "calls": JudgeCall.objects.count(),
        "scores": Score.objects.count(),
        "ledger": LedgerEntry.objects.count(),
    }


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare"]:
            prepare()
        case ["receive", key, first_seq]:
            receive(key, int(first_seq))
        case ["verify", key]:
            verify(key)
