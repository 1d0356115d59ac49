"""Inputs that move while a plan is being concluded, and two who conclude at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from django.db import connection

from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude, store_conclusion
from gates.decisions.operations.judgment import judgment
from gates.decisions.queries import unconcluded_plans
from gates.verdicts.models import DecisionRecord
from gates.verdicts.queries.evaluation import evaluate
from lanes.plans.models import Plan, PlanState
from lanes.plans.operations.lifecycle import bump_inputs
from tests.gates.factories import (
    SCENARIOS,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import NOW

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FEW = SCENARIOS[:2]


def make_sealed_plan() -> Plan:
    """Return a plan that is sealed and whose present inputs nobody has concluded.

    Tasks run eagerly here, so the last seal may have concluded it already.
    """
    plan = make_scored_plan(make_gated_project(), scenarios=FEW, epochs=1)
    run_lanes(plan, steady("candidate"))
    bump_inputs(plan, at=NOW)
    plan.refresh_from_db()
    return plan


def in_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread with a database connection of its own."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result(timeout=30)


def test_conclude_stores_nothing_when_inputs_moved_meanwhile() -> None:
    plan = make_sealed_plan()
    evaluation = evaluate(plan)
    judged = judgment(evaluation.findings, [d.judged for d in evaluation.gating], protected=False)
    before = (Conclusion.objects.count(), DecisionRecord.objects.count())
    in_thread(lambda: bump_inputs(plan, at=NOW))

    stored = store_conclusion(evaluation, judged, at=NOW, also=None)

    assert stored is None
    assert (Conclusion.objects.count(), DecisionRecord.objects.count()) == before
    assert plan in unconcluded_plans(at=NOW)
    assert conclude(plan, at=NOW) is not None
    assert plan not in unconcluded_plans(at=NOW)


def test_conclude_while_another_thread_moves_the_inputs_ends_on_the_newest() -> None:
    plan = make_sealed_plan()
    stop = Event()

    def keep_moving() -> None:
        try:
            for _ in range(5):
                bump_inputs(plan, at=NOW)
                stop.wait(0.05)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(keep_moving)
        while not moving.done():
            conclude(plan, at=NOW)
        moving.result()
    newest = conclude(plan, at=NOW)

    plan.refresh_from_db()
    assert newest is not None
    assert newest.inputs_version == plan.inputs_version == plan.concluded_version
    seen = list(Conclusion.objects.filter(plan=plan).values_list("inputs_version", flat=True))
    assert len(seen) == len(set(seen))


def test_two_who_conclude_at_once_store_one_conclusion() -> None:
    plan = make_sealed_plan()
    both = Barrier(2)

    def work() -> int | None:
        try:
            both.wait(10)
            conclusion = conclude(plan, at=NOW)
            return None if conclusion is None else conclusion.pk
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        results = {future.result(timeout=60) for future in [pool.submit(work) for _ in range(2)]}

    plan.refresh_from_db()
    assert len(results) == 1
    assert None not in results
    assert Conclusion.objects.filter(plan=plan, inputs_version=plan.inputs_version).count() == 1
    assert plan.state == PlanState.CONCLUDED
