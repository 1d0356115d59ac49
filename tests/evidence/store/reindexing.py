"""A process that reindexes until it is killed; run as a program by `test_reindex_crash.py`.

`prepare` makes the database and a rich store, prints the tables and drops them. `reindex` makes them
again and prints a line for each segment once its rows are there. `dump` prints the tables. All of it
below EVALHUB_TEST_DATA.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from evalhub.tasks.app import app  # noqa: E402
from evidence.store.operations import counting, removals  # noqa: E402
from evidence.store.operations.findings import Scope  # noqa: E402
from evidence.store.operations.plan_rows import Tally  # noqa: E402
from evidence.store.operations.reindex import DERIVED, reindex  # noqa: E402
from tests.evidence.store.dumps import drop_rows, dumped_tables  # noqa: E402
from tests.evidence.store.rich import Clock, make_rich_project, make_rich_store  # noqa: E402
from tests.lanes.factories import NOW  # noqa: E402

CONCLUDED = (
    "gates_verdicts.DecisionRecord",
    "gates_verdicts.ChosenBaseline",
    "gates_decisions.Conclusion",
    "gates_decisions.Conclusion_records",
)
"""Here tasks are done, so plans are concluded; these refer to plans and are not made again."""


class SpeakingTally(Tally):
    """Says when the rows of a segment were made."""

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, value)
        if name == "segments" and value:
            say(value)


def prepare() -> None:
    call_command("migrate", verbosity=0)
    app.loader.import_default_modules()
    make_rich_store(make_rich_project(), Clock())
    say(dumped_tables())
    drop_rows((*DERIVED, *CONCLUDED))


def make_again() -> None:
    findings = reindex(Scope(), SpeakingTally(), at=NOW)
    told = [str(finding) for finding in findings]
    # As the sweeps of a server that runs would.
    counting.count_stored()
    removals.sweep_removals(at=NOW)
    say({"findings": told})


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1]:
        case "prepare":
            prepare()
        case "reindex":
            make_again()
        case "dump":
            say(dumped_tables())
