"""Intake in processes that die at a chosen step, or that all do the same at once; run as a program.

`die` prints, for each of `STEPS`, what was there after the kill, after the sweep and after the segment
was sent again. `race N` sends one segment from N processes at one moment and prints what each heard.
All below EVALHUB_TEST_DATA, on the database that EVALHUB_TEST_DATABASE names. Each process is a fork of
one that has asked neither the database nor the object store for anything.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from evalhub.protocol.canonical import bytes_digest  # noqa: E402
from evalhub.tasks.app import app  # noqa: E402
from evidence.store.models import Item, JudgeCall, Refusal, Run, Score, Segment  # noqa: E402
from evidence.store.operations import orphans, receipts  # noqa: E402
from evidence.store.operations.objects import receipt_key  # noqa: E402
from evidence.store.storage import object_store  # noqa: E402
from lanes.budget.models import LedgerEntry  # noqa: E402
from lanes.plans import queries as plans_queries  # noqa: E402
from tests.evidence.factories import send_segment  # noqa: E402
from tests.evidence.store.receiving import prepared, segment  # noqa: E402
from tests.lanes.factories import NOW  # noqa: E402


class Step(NamedTuple):
    """A moment of intake: a function of a file is called, or returns."""

    event: str
    file: str
    function: str
    builtin: str = ""
    """What the function calls, where the event is that it calls something that is not Python."""

    def __str__(self) -> str:
        return f"{self.event} {self.builtin or self.function}"


# The bytes have no name yet, and then they have.
OF_A_DIRECTORY = [
    Step("c_call", "directory.py", "put", "fsync"),
    Step("call", "directory.py", "_sync_folder"),
]


STEPS = [
    Step("call", "intake.py", "receive_segment"),
    # Every byte is here, and nothing is stored.
    Step("return", "uploads.py", "received_upload"),
    Step("call", "intake.py", "_stored_object"),
    Step("call", "directory.py", "put"),
    *OF_A_DIRECTORY,
    # The object is durable.
    Step("return", "intake.py", "_stored_object"),
    Step("return", "archive.py", "open_archive"),
    Step("return", "reading.py", "sorted_segment"),
    # In the transaction.
    Step("return", "recording.py", "_settle"),
    Step("return", "recording.py", "_lock"),
    Step("return", "rows.py", "store_items"),
    Step("return", "recording.py", "_tell_plan"),
    # After it.
    Step("call", "receipts.py", "store_receipt"),
    Step("return", "receipts.py", "store_receipt"),
    Step("return", "intake.py", "receive_segment"),
]

ELSEWHERE = [
    Step("return", "intake.py", "_stored_object"),
    Step("return", "recording.py", "_settle"),
    Step("return", "recording.py", "_tell_plan"),
    Step("call", "receipts.py", "store_receipt"),
]


class Ended(NamedTuple):
    """How a process ended and what it said."""

    signal: int
    said: Any


def forked(work: Callable[[], object]) -> Ended:
    """Do something in a process of its own and wait for its end."""
    return _ended(*_begun(work))


def at_once(number: int, work: Callable[[], object]) -> list[Ended]:
    """Do something in several processes, which all wait until all are there."""
    ready, gate = os.pipe(), os.pipe()

    def waiting() -> object:
        os.write(ready[1], b".")
        os.close(gate[1])
        # Ends when nobody holds the other side any more: at one moment for all.
        os.read(gate[0], 1)
        return work()

    begun = [_begun(waiting) for _ in range(number)]
    for _ in begun:
        os.read(ready[0], 1)
    os.close(gate[1])
    return [_ended(*one) for one in begun]


def _begun(work: Callable[[], object]) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with os.fdopen(writing, "w") as said:
                json.dump(work(), said)
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading


def _ended(pid: int, reading: int) -> Ended:
    with os.fdopen(reading) as said:
        text = said.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return Ended(os.WTERMSIG(status), None)
    if status != 0:
        raise RuntimeError("A process failed; what it wrote stands above.")
    return Ended(0, json.loads(text))


def die_at(step: Step) -> None:
    """Have this process kill itself when it comes to a step."""

    def look(frame: FrameType, event: str, what: object) -> None:
        code = frame.f_code
        if (
            event == step.event
            and code.co_name == step.function
            and code.co_filename.endswith(f"/{step.file}")
            and step.builtin in ("", getattr(what, "__name__", None))
        ):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)


def send(key: str, seq: int, *, dying_at: Step | None = None) -> object:
    attempt = plans_queries.attempt_with_key(key)
    data = segment(attempt, seq)
    if dying_at is not None:
        die_at(dying_at)
    received = send_segment(attempt, data, seq=seq, at=sent_at(seq))
    return {"is_new": received.is_new, "receipt": received.receipt.model_dump(mode="json")}


def state(key: str, seq: int) -> object:
    """Return what counts of a segment; what its row promises was read back."""
    rows = Segment.objects.filter(attempt__key=key, seq=seq)
    for row in rows:
        with object_store().open(row.object_key) as file:
            assert bytes_digest(file.read()) == row.sha256
    items = Item.objects.filter(segment__in=rows)
    return {
        "receipts": [row.receipt for row in rows],
        "items": items.count(),
        "runs": Run.objects.filter(items__segment__in=rows).distinct().count(),
        "calls": JudgeCall.objects.filter(item__in=items).count(),
        "receipt objects": sum(object_store().exists(receipt_key(row.object_key)) for row in rows),
    }


def swept(seq: int) -> int:
    """Sweep as is done some time after a segment was sent."""
    late = sent_at(seq) + orphans.QUIET
    taken = orphans.sweep_orphans(at=late)
    receipts.sweep_receipts(at=late)
    # Files have the time of the machine's clock.
    object_store().drop_unfinished(before=timezone.now() + orphans.UNFINISHED)
    return taken


def sent_at(seq: int) -> datetime:
    """Return when a segment is sent: the lane is quiet between any two."""
    return NOW + seq * timedelta(hours=1)


def unfinished() -> int:
    """Return how many files have no name yet."""
    incoming = Path(settings.OBJECTS_DIR) / ".incoming"
    return len(list(incoming.iterdir())) if incoming.is_dir() else 0


def counted() -> object:
    models = [Segment, Item, Run, JudgeCall, Score, LedgerEntry, Refusal]
    counts = {model.__name__: model._default_manager.count() for model in models}
    return counts | {"unfinished": unfinished()}


def die() -> object:
    key = forked(lambda: prepared(len(STEPS))).said
    # What another database and a bucket could do otherwise; the rest is the same code.
    steps = ELSEWHERE if settings.S3_BUCKET else STEPS
    deaths = [death(key, seq, step) for seq, step in enumerate(steps, start=1)]
    return {"steps": deaths, "counted": forked(counted).said}


def death(key: str, seq: int, step: Step) -> object:
    """Send a segment in a process that dies at a step; return what was there from then on."""
    killed = forked(lambda: send(key, seq, dying_at=step))
    found = forked(lambda: [state(key, seq), unfinished()]).said
    later = forked(lambda: [swept(seq), state(key, seq)]).said
    again = forked(lambda: [send(key, seq), state(key, seq)]).said
    return {
        "step": str(step),
        "signal": killed.signal,
        **dict(zip(["killed", "unfinished"], found, strict=True)),
        **dict(zip(["taken", "swept"], later, strict=True)),
        **dict(zip(["sent again", "in the end"], again, strict=True)),
    }


def race(number: int) -> object:
    key = forked(lambda: prepared(len(STEPS))).said
    heard = [one.said for one in at_once(number, lambda: send(key, 1))]
    return {
        "heard": heard,
        "state": forked(lambda: state(key, 1)).said,
        "counted": forked(counted).said,
    }


if __name__ == "__main__":
    app.loader.import_default_modules()
    match sys.argv[1:]:
        case ["die"]:
            outcome = die()
        case ["race", number]:
            outcome = race(int(number))
        case other:
            sys.exit(f"{other} was asked for; expected die, or race N")
    json.dump(outcome, sys.stdout)
