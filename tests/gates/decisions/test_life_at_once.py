"""Lanes and people who act on one plan in the same moment: each is answered, and nothing is left between."""

from collections.abc import Callable

import pytest

from evalhub.web.errors import DomainError
from evidence.store.models import Item, Segment
from gates.decisions import queries as decisions
from lanes.plans import queries
from lanes.plans.models import Attempt, AttemptState, PlanState
from tests.evidence.factories import run_keys
from tests.gates.decisions.lives import LANES, SCENARIOS, Life, run_members
from tests.gates.factories import make_baseline, make_gated_project, make_scored_plan
from tests.lanes.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ACCEPTING = {AttemptState.OPEN, AttemptState.SILENT}


def make_life() -> Life:
    """Return a plan with an attempt of each lane, and another plan of its commit that has concluded."""
    project = make_gated_project()
    make_baseline(project, scenarios=SCENARIOS, epochs=1)
    life = Life([make_scored_plan(project, scenarios=SCENARIOS, epochs=1) for _ in range(2)])
    for lane in LANES:
        life.open(0, lane)
        attempt = life.open(1, lane)
        send_lane(life, attempt)
        life.seal(attempt)
    life.sweep()
    return life


def send_lane(life: Life, attempt: Attempt) -> None:
    for key in run_keys(attempt):
        life.send(attempt, run_members(key, tag=attempt.key))


def all_at_once(*acts: Callable[[], object]) -> None:
    """Do all of it in one moment; only answers that were foreseen may come."""
    outcomes = at_once(acts)
    unforeseen = [
        o for o in outcomes if isinstance(o, Exception) and not isinstance(o, DomainError)
    ]
    assert not unforeseen


def assert_whole(life: Life) -> None:
    """Say that rows agree with each other, and that everything comes to rest."""
    row = life.row(0)
    attempts = queries.attempts_of(row)
    for lane in LANES:
        mine = [a for a in attempts if a.lane.name == lane]
        assert [a.number for a in mine] == list(range(1, len(mine) + 1))
        assert not [a for a in mine[:-1] if a.state in ACCEPTING]
    if row.cancelled_at is not None:
        assert not [a for a in attempts if a.state in ACCEPTING]
    for segment in Segment.objects.filter(attempt__lane__plan=row):
        assert Item.objects.filter(segment=segment).count() == segment.receipt["accepted"]
    life.come_to_rest()
    for plan in (0, 1):
        rested, newest = life.row(plan), life.newest(plan)
        assert rested.concluded_version == rested.inputs_version
        if rested.cancelled_at is None:
            assert rested.state == PlanState.CONCLUDED
            assert newest is not None
            assert newest.inputs_version == rested.inputs_version
    assert decisions.unconcluded_plans(at=life.now) == []


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_open_upload_seal_and_end_at_once(end: str) -> None:
    life = make_life()
    first, second = (life.attempts(0, lane)[0] for lane in LANES)

    all_at_once(
        lambda: life.open(0, LANES[0]),
        lambda: send_lane(life, first),
        lambda: send_lane(life, second),
        lambda: life.seal(second),
        lambda: life.beat(second),
        lambda: getattr(life, end)(0),
        lambda: life.conclude(0),
    )

    assert_whole(life)


def test_plans_of_one_commit_that_conclude_at_once_hold_nobody_up() -> None:
    life = make_life()
    for lane in LANES:
        send_lane(life, life.attempts(0, lane)[0])
        again = life.open(1, lane)
        send_lane(life, again)
    life.close(0)
    life.close(1)

    all_at_once(
        lambda: life.conclude(0),
        lambda: life.conclude(1),
        life.sweep,
        lambda: life.seal(life.attempts(0, LANES[0])[0]),
        lambda: life.reopen(1),
    )

    assert_whole(life)


@pytest.mark.parametrize("time", range(3))
def test_cancel_and_open_at_once_leave_no_lane_at_work(time: int) -> None:
    life = make_life()

    all_at_once(lambda: life.cancel(0), *[lambda: life.open(0, LANES[time % 2])] * 3)

    assert life.row(0).cancelled_at is not None
    assert_whole(life)
