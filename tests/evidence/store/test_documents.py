"""Documents beside the segments: written at once, and by the sweep where that failed."""

import json
from datetime import timedelta
from typing import Any

import pytest

from evalhub.protocol.retained import RetainedState, parse_state
from evidence.store.models import PlanCopy, Refusal, Seal
from evidence.store.operations import documents, objects
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.storage import object_store
from evidence.store.tasks import sweep_documents
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import lifecycle
from tests.evidence.factories import make_run, make_sealed_lane, seal_attempt, send_segment
from tests.lanes.factories import NOW, make_attempt, make_plan, make_pool, make_project

pytestmark = pytest.mark.django_db


def stored(key: str) -> Any:
    with object_store().open(key) as file:
        return json.load(file)


def state_of(plan: Plan) -> RetainedState:
    with object_store().open(f"{objects.plan_folder(plan)}/state.json") as file:
        return parse_state(file.read())


def make_refused_segment(attempt: Attempt) -> Refusal:
    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, b"no archive")
    return Refusal.objects.get(attempt=attempt)


def test_reason_lies_beside_a_segment_that_was_refused() -> None:
    refusal = make_refused_segment(make_attempt())

    assert stored(objects.refusal_key(refusal.object_key)) == {
        "seq": 1,
        "sha256": refusal.sha256,
        "size_bytes": 10,
        "category": "malformed",
        "code": refusal.code,
        "detail": refusal.detail,
        "refused_at": "2026-11-29T12:00:00Z",
    }


def test_sweep_writes_the_reason_and_the_seal_that_a_crash_left_out() -> None:
    attempt = make_attempt()
    refusal = make_refused_segment(attempt)
    make_sealed_lane(attempt)
    keys = [
        objects.refusal_key(refusal.object_key),
        f"{objects.attempt_folder(attempt)}/seal.json",
    ]
    before = [stored(key) for key in keys]
    for key in keys:
        object_store().delete(key)

    sweep_documents.delay()

    assert [stored(key) for key in keys] == before
    refusal.refresh_from_db()
    assert refusal.stored_at is not None
    assert Seal.objects.get(attempt=attempt).stored_at is not None


def test_seal_is_told_once_however_often_it_is_asked_for() -> None:
    attempt = make_attempt()
    make_sealed_lane(attempt)
    key = f"{objects.attempt_folder(attempt)}/seal.json"
    first = stored(key)

    seal_attempt(attempt, at=NOW + timedelta(minutes=1))
    documents.sweep_documents(at=NOW)

    assert stored(key) == first
    assert first["segments"] == Seal.objects.get(attempt=attempt).segments


def test_sweep_tells_of_a_plan_before_anything_was_sent_to_it() -> None:
    plan = make_plan()
    attempt = make_attempt(plan)

    documents.sweep_documents(at=NOW)

    folder = objects.plan_folder(plan)
    assert sorted(object_store().keys(f"{folder}/")) == [
        f"{folder}/ordinary-1/{attempt.key}/attempt.json",
        f"{folder}/plan.json",
        f"{folder}/policy.json",
        f"{folder}/state.json",
    ]
    state = state_of(plan)
    assert state.evidence == 0
    assert [one.identity.attempt for one in state.attempts] == [attempt.key]
    assert state.columns["registered_by"] == plan.registered_by


def test_sweep_writes_the_state_anew_exactly_when_a_plan_has_changed() -> None:
    attempt = make_attempt(make_plan())
    plan = attempt.lane.plan
    documents.sweep_documents(at=NOW)
    assert documents.sweep_documents(at=NOW) == 0

    make_run(attempt)
    assert documents.sweep_documents(at=NOW) == 1
    assert state_of(plan).evidence == 2
    lifecycle.mark_concluded(plan, inputs_version=Plan.objects.get().inputs_version, at=NOW)
    assert documents.sweep_documents(at=NOW) == 1
    assert state_of(plan).columns["state"] == "CONCLUDED"
    make_plan(plan.project, source={"head_sha": "d" * 40})
    # The one that it superseded, and itself.
    assert documents.sweep_documents(at=NOW) == 2
    assert state_of(plan).columns["superseded_at"] is not None
    assert state_of(plan).columns["superseded_at"] == "2026-11-29T12:00:00Z"
    assert documents.sweep_documents(at=NOW) == 0


def test_state_tells_what_lanes_were_given() -> None:
    project = make_project()
    make_pool(project)
    plan = make_plan(project, lane={"pool": "judge-main", "budget_microusd": 5000})

    documents.sweep_documents(at=NOW)

    given = state_of(plan).allocations
    assert [(one.lane, one.pool) for one in given] == [
        ("ordinary-1", "judge-main"),
        ("ordinary-2", "judge-main"),
    ]
    assert given[0].columns["limit_microusd"] == 5000


def test_sweep_leaves_a_plan_alone_whose_rows_are_being_made_again() -> None:
    plan = make_plan()
    PlanCopy.objects.create(plan=plan, rebuild_counted=3)

    assert documents.sweep_documents(at=NOW) == 0

    assert list(object_store().keys()) == []
