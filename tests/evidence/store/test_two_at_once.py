"""Two uploads at the same moment, in real threads with connections of their own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from evalhub.protocol.paths import run_folder
from evidence.store.models import Item, JudgeCall, Refusal, Run, Score, Segment
from evidence.store.operations import sealing
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.operations.recording import Received, SegmentConflictError
from lanes.budget import queries as budget_queries
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt
from tests.evidence.factories import (
    first_run_key,
    judge_line,
    make_segment,
    ndjson,
    result_bytes,
    run_keys,
    seal_request,
    send_segment,
)
from tests.lanes.factories import make_attempt, make_plan

pytestmark = pytest.mark.django_db(transaction=True)

Outcome = Received | SegmentConflictError | SegmentRefusedError


def at_once(calls: list[Callable[[], Received]]) -> list[Outcome]:
    """Start all calls at one moment and return what each gave or raised."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Received]) -> Outcome:
        try:
            barrier.wait()
            return call()
        except (SegmentConflictError, SegmentRefusedError) as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def sender(attempt: Attempt, data: bytes, seq: int = 1) -> Callable[[], Received]:
    """Return a call that sends a segment with an attempt of its own, as a request would."""
    return lambda: send_segment(plans_queries.attempt_with_key(attempt.key), data, seq=seq)


def judged_run(attempt: Attempt, *, outcome: str = "passed") -> dict[str, bytes]:
    folder = run_folder(first_run_key(attempt))
    return {
        f"{folder}/result.json": result_bytes(outcome),
        f"{folder}/judge.1.ndjson": ndjson(judge_line(cost_microusd=300)),
    }


def test_same_segment_makes_one_set_of_rows_and_one_receipt() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, judged_run(attempt))

    outcomes = at_once([sender(attempt, data)] * 4)

    received = [outcome for outcome in outcomes if isinstance(outcome, Received)]
    assert len(received) == 4
    assert sum(outcome.is_new for outcome in received) == 1
    assert len({outcome.receipt.model_dump_json() for outcome in received}) == 1
    assert (Segment.objects.count(), Item.objects.count(), Run.objects.count()) == (1, 2, 1)
    assert (JudgeCall.objects.count(), Score.objects.count()) == (1, 2)
    assert budget_queries.spend_of_plan(attempt.lane.plan.digest).spent_microusd == 300


def test_of_two_different_segments_under_one_seq_one_is_received() -> None:
    attempt = make_attempt()
    one = make_segment(attempt, judged_run(attempt))
    other = make_segment(attempt, judged_run(attempt, outcome="failed"))

    outcomes = at_once([sender(attempt, one), sender(attempt, other)])

    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Received",
        "SegmentConflictError",
    ]
    assert Segment.objects.count() == 1


def test_broken_segment_sent_twice_is_quarantined_once() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, judged_run(attempt)) + b"\0"

    outcomes = at_once([sender(attempt, data)] * 3)

    assert all(isinstance(outcome, SegmentRefusedError) for outcome in outcomes)
    assert Refusal.objects.count() == 1


def test_of_two_items_for_one_path_one_counts_and_one_is_a_duplicate() -> None:
    attempt = make_attempt()
    path = f"{run_folder(first_run_key(attempt))}/result.json"
    calls = [
        sender(attempt, make_segment(attempt, {path: result_bytes(outcome)}, seq=seq), seq)
        for seq, outcome in enumerate(("passed", "failed"), start=1)
    ]

    at_once(calls)

    assert Item.objects.filter(path=path).count() == 1
    assert Refusal.objects.get().category == "duplicate"
    assert Run.objects.count() == 1


def test_segments_of_many_lanes_are_all_received() -> None:
    scenarios = [(f"scenario-{i}", f"category-{i}") for i in range(6)]
    plan = make_plan(scenarios=scenarios)
    attempts = [make_attempt(plan, f"ordinary-{i}") for i in range(1, 7)]
    calls = [sender(each, make_segment(each, judged_run(each))) for each in attempts]
    before = plans_queries.plan_with_digest(plan.digest).inputs_version

    outcomes = at_once(calls)

    assert all(isinstance(outcome, Received) for outcome in outcomes)
    assert Run.objects.count() == sum(len(run_keys(each)) for each in attempts)
    after = plans_queries.plan_with_digest(plan.digest).inputs_version
    assert after == before + len(attempts)


def test_segment_and_seal_at_once_leave_nothing_between() -> None:
    attempt = make_attempt()
    data = make_segment(attempt, judged_run(attempt))
    request = seal_request(attempt, final=True)
    barrier = Barrier(2)

    def seal() -> bool:
        try:
            barrier.wait()
            return sealing.seal(
                plans_queries.attempt_with_key(attempt.key), request, at=attempt.opened_at
            ).sealed
        except sealing.SegmentsMissingError:
            return False
        finally:
            connection.close()

    def send() -> Received:
        try:
            barrier.wait()
            return sender(attempt, data)()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        sealed, received = pool.submit(seal), pool.submit(send)

    # Either the seal came first and the evidence is stale, or it saw a segment that it did not name.
    accepted = received.result().receipt.accepted
    assert (sealed.result(), accepted) in {(True, 0), (False, 2)}
