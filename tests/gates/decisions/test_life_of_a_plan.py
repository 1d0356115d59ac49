"""Each thing that can happen to a plan, in each state that it can be in: what becomes of it.

The plan has one lane. `gen` counts generations from the first, `+v` says whether inputs_version rises,
`answer` is an error's code or the category under which evidence was refused.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from django.conf import settings

from evalhub.web.errors import DomainError
from lanes.plans import queries
from tests.evidence.factories import run_keys
from tests.gates.decisions.lives import Life, run_members
from tests.gates.factories import make_gated_project, make_scored_plan

pytestmark = pytest.mark.django_db

LANE = "ordinary-1"
ONE_LANE = [("orders-00", "orders"), ("orders-01", "orders")]
SILENCE = 4 * settings.HEARTBEAT_SECONDS / 60


class Fate(NamedTuple):
    """Where a plan stands."""

    state: str
    generation: int
    marks: str
    attempts: str
    """The states of its attempts, the first first."""


def newest_sends(life: Life, scenario: int, *, number: int = -1) -> str:
    attempt = life.attempts(0, LANE)[number]
    receipt = life.send(attempt, run_members(run_keys(attempt)[scenario], tag=attempt.key))
    return ",".join(sorted({str(item.category) for item in receipt.refused}))


def another_head(life: Life) -> None:
    make_scored_plan(life.plans[0].project, sha="2" * 40, scenarios=ONE_LANE, at=life.now)


def run_out_of_time(life: Life) -> None:
    life.pass_time(241)
    life.sweep()


def fall_silent(life: Life) -> None:
    life.pass_time(SILENCE)
    life.sweep()


def seal(life: Life) -> str | None:
    attempt = life.attempts(0, LANE)[-1]
    return None if life.seal(attempt) else "attempt-ended"


STARTS: dict[str, list[Callable[[Life], object]]] = {
    "registered": [],
    "running": [lambda life: life.open(0, LANE)],
    "silent": [lambda life: life.open(0, LANE), fall_silent],
    "rerun": [lambda life: life.open(0, LANE), lambda life: life.open(0, LANE)],
    "sealed": [lambda life: life.open(0, LANE), seal, lambda life: life.sweep()],
    "closed": [lambda life: life.open(0, LANE), lambda life: life.close(0), lambda life: life.sweep()],
    "overdue": [lambda life: life.open(0, LANE), run_out_of_time, lambda life: life.sweep()],
    "superseded": [lambda life: life.open(0, LANE), another_head],
    "cancelled": [lambda life: life.open(0, LANE), lambda life: life.cancel(0), lambda life: life.sweep()],
    "rerun cancelled": [
        lambda life: life.open(0, LANE),
        seal,
        lambda life: life.sweep(),
        lambda life: life.open(0, LANE),
        lambda life: life.cancel(0),
        lambda life: life.sweep(),
    ],
}  # fmt: skip
EVENTS: dict[str, Callable[[Life], object]] = {
    "open": lambda life: life.open(0, LANE),
    "evidence": lambda life: newest_sends(life, 0),
    "old evidence": lambda life: newest_sends(life, 1, number=0),
    "seal": seal,
    "close": lambda life: life.close(0),
    "reopen": lambda life: life.reopen(0),
    "cancel": lambda life: life.cancel(0),
    "message": lambda life: life.conclude(0),
    "deadline": run_out_of_time,
    "silence": fall_silent,
    "another head": another_head,
}
TABLE = """
start           | event        | state      | gen | +v | marks           | attempts            | answer
registered      | open         | RUNNING    | 1   | +  |                 | OPEN                |
registered      | close        | REGISTERED | 1   | +  | closed          |                     |
registered      | reopen       | REGISTERED | 1   |    |                 |                     |
registered      | cancel       | REGISTERED | 1   | +  | cancelled       |                     |
registered      | message      | REGISTERED | 1   |    |                 |                     |
registered      | deadline     | CONCLUDED  | 1   |    |                 |                     |
registered      | another head | REGISTERED | 1   |    | superseded      |                     |
running         | open         | RUNNING    | 1   | +  |                 | SUPERSEDED OPEN     |
running         | evidence     | RUNNING    | 1   | +  |                 | OPEN                |
running         | seal         | RUNNING    | 1   | +  |                 | SEALED              |
running         | close        | RUNNING    | 1   | +  | closed          | OPEN                |
running         | reopen       | RUNNING    | 1   |    |                 | OPEN                |
running         | cancel       | RUNNING    | 1   | +  | cancelled       | CANCELLED           |
running         | message      | RUNNING    | 1   |    |                 | OPEN                |
running         | silence      | RUNNING    | 1   | +  |                 | SILENT              |
running         | deadline     | CONCLUDED  | 1   | +  |                 | SILENT              |
running         | another head | RUNNING    | 1   |    | superseded      | OPEN                |
silent          | open         | RUNNING    | 1   | +  |                 | SUPERSEDED OPEN     |
silent          | evidence     | RUNNING    | 1   | +  |                 | OPEN                |
silent          | seal         | RUNNING    | 1   | +  |                 | SEALED              |
silent          | cancel       | RUNNING    | 1   | +  | cancelled       | CANCELLED           |
rerun           | evidence     | RUNNING    | 1   | +  |                 | SUPERSEDED OPEN     |
rerun           | old evidence | RUNNING    | 1   | +  |                 | SUPERSEDED OPEN     | stale
rerun           | seal         | RUNNING    | 1   | +  |                 | SUPERSEDED SEALED   |
rerun           | cancel       | RUNNING    | 1   | +  | cancelled       | SUPERSEDED CANCELLED|
sealed          | open         | RUNNING    | 2   | +  |                 | SUPERSEDED OPEN     |
sealed          | evidence     | CONCLUDED  | 1   | +  |                 | SEALED              | stale
sealed          | seal         | CONCLUDED  | 1   |    |                 | SEALED              |
sealed          | close        | CONCLUDED  | 1   | +  | closed          | SEALED              |
sealed          | reopen       | CONCLUDED  | 1   |    |                 | SEALED              | nothing-to-reopen
sealed          | cancel       | CONCLUDED  | 1   |    |                 | SEALED              | plan-concluded
sealed          | deadline     | CONCLUDED  | 1   |    |                 | SEALED              |
closed          | open         | RUNNING    | 2   | +  |                 | SUPERSEDED OPEN     |
closed          | evidence     | RUNNING    | 2   | +  | closed          | OPEN                |
closed          | seal         | CONCLUDED  | 1   | +  | closed          | SEALED              |
closed          | close        | CONCLUDED  | 1   |    | closed          | OPEN                |
closed          | reopen       | RUNNING    | 2   | +  |                 | OPEN                |
closed          | cancel       | CONCLUDED  | 1   |    | closed          | OPEN                | plan-concluded
closed          | silence      | CONCLUDED  | 1   | +  | closed          | SILENT              |
overdue         | open         | RUNNING    | 2   | +  |                 | SUPERSEDED OPEN     |
overdue         | evidence     | RUNNING    | 2   | +  |                 | OPEN                |
overdue         | seal         | CONCLUDED  | 1   | +  |                 | SEALED              |
overdue         | reopen       | RUNNING    | 2   | +  |                 | SILENT              |
overdue         | cancel       | CONCLUDED  | 1   |    |                 | SILENT              | plan-concluded
superseded      | open         | RUNNING    | 1   | +  | superseded      | SUPERSEDED OPEN     |
superseded      | evidence     | RUNNING    | 1   | +  | superseded      | OPEN                |
superseded      | seal         | RUNNING    | 1   | +  | superseded      | SEALED              |
superseded      | cancel       | RUNNING    | 1   | +  | superseded cancelled | CANCELLED      |
superseded      | deadline     | CONCLUDED  | 1   | +  | superseded      | SILENT              |
cancelled       | open         | RUNNING    | 1   |    | cancelled       | CANCELLED           | plan-cancelled
cancelled       | evidence     | RUNNING    | 1   | +  | cancelled       | CANCELLED           | stale
cancelled       | seal         | RUNNING    | 1   |    | cancelled       | CANCELLED           | attempt-ended
cancelled       | close        | RUNNING    | 1   |    | cancelled       | CANCELLED           | plan-cancelled
cancelled       | reopen       | RUNNING    | 1   |    | cancelled       | CANCELLED           | plan-cancelled
cancelled       | cancel       | RUNNING    | 1   |    | cancelled       | CANCELLED           |
cancelled       | message      | RUNNING    | 1   |    | cancelled       | CANCELLED           |
cancelled       | deadline     | RUNNING    | 1   |    | cancelled       | CANCELLED           |
rerun cancelled | evidence     | RUNNING    | 2   | +  | cancelled       | SUPERSEDED CANCELLED| stale
rerun cancelled | open         | RUNNING    | 2   |    | cancelled       | SUPERSEDED CANCELLED| plan-cancelled
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()[1:]]


def fate_of(life: Life) -> Fate:
    row = life.row(0)
    marks = [name for name in ("closed", "superseded", "cancelled") if getattr(row, f"{name}_at")]
    states = [str(attempt.state) for attempt in queries.attempts_of(row)]
    return Fate(str(row.state), row.generation, " ".join(marks), " ".join(states))


def make_life(start: str) -> Life:
    plan = make_scored_plan(make_gated_project(), scenarios=ONE_LANE, epochs=1)
    life = Life([plan])
    for step in STARTS[start]:
        step(life)
    return life


@pytest.mark.parametrize(
    ("start", "event", "state", "generation", "rises", "marks", "attempts", "answer"),
    ROWS,
    ids=[f"{row[0]}-{row[1]}".replace(" ", "_") for row in ROWS],
)
def test_what_becomes_of_a_plan(
    start: str,
    event: str,
    state: str,
    generation: str,
    rises: str,
    marks: str,
    attempts: str,
    answer: str,
) -> None:
    life = make_life(start)
    version = life.row(0).inputs_version

    try:
        answered = EVENTS[event](life)
    except DomainError as error:
        answered = error.code

    assert fate_of(life) == Fate(state, int(generation), marks, attempts)
    assert (life.row(0).inputs_version > version) == (rises == "+")
    assert (answered if isinstance(answered, str) else "") == answer


def test_table_has_every_start_and_every_event() -> None:
    assert {row[0] for row in ROWS} == set(STARTS)
    assert {row[1] for row in ROWS} == set(EVENTS)
