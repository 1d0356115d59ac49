"""Reads: coverage over attempts, rows for the gate, bytes that are compared with their digest."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import ItemKind, run_folder
from evalhub.web.errors import NotFoundError
from evidence.store import queries
from evidence.store.models import Item, Refusal
from evidence.store.storage import object_store
from tests.evidence.factories import (
    first_run_key,
    make_file,
    make_refusal,
    make_run,
    make_segment,
    result_bytes,
    run_keys,
    send_members,
    send_segment,
)
from tests.lanes.factories import CHECK_FINGERPRINT, NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db


def test_lane_that_never_began_misses_everything() -> None:
    plan = make_plan()

    coverage = queries.missing_evidence(plan)

    assert [(c.lane, c.state, c.accepted, c.last_heard_at) for c in coverage] == [
        ("ordinary-1", None, 0, None),
        ("ordinary-2", None, 0, None),
    ]
    assert {str(key): paths for c in coverage for key, paths in c.missing.items()} == {
        f"{scenario}/candidate/1": [f"runs/{scenario}/candidate/1/result.json"]
        for scenario in ("order-lookup", "refund-late", "refund-twice")
    }


def test_advisory_lane_owes_nothing_unless_asked() -> None:
    plan = make_plan(lane={"kind": "advisory"})

    assert queries.missing_evidence(plan) == []
    assert len(queries.missing_evidence(plan, with_advisory=True)) == 2


def test_run_that_the_lane_lost_is_made_up_for_by_the_next_attempt() -> None:
    lost = make_attempt()
    folder = run_folder(first_run_key(lost))
    send_members(
        lost, {f"{folder}/transcript.1.ndjson": b'{"turn":1,"role":"user","kind":"message"}'}
    )
    send_members(lost, {f"{folder}/result.json": result_bytes("infra_error")})
    again = make_attempt(lost.lane.plan)

    make_run(again)

    assert queries.missing_evidence(lost.lane.plan)[0].missing == {}


def test_unmeasured_run_of_a_later_attempt_does_not_make_up_for_a_measured_one() -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))
    send_members(attempt, {f"{folder}/result.json": result_bytes("passed")})
    again = make_attempt(attempt.lane.plan)
    send_members(again, {f"{folder}/result.json": result_bytes("infra_error")})

    missing = queries.missing_evidence(attempt.lane.plan)[0].missing

    assert missing == {
        first_run_key(attempt): [f"{folder}/transcript.1.ndjson", f"{folder}/judge (resolved)"]
    }


def test_of_two_measured_runs_the_more_complete_one_speaks_for_the_key() -> None:
    attempt = make_attempt()
    make_run(attempt)
    again = make_attempt(attempt.lane.plan)
    folder = run_folder(first_run_key(attempt))
    send_members(again, {f"{folder}/result.json": result_bytes("failed")})

    assert queries.missing_evidence(attempt.lane.plan)[0].missing == {}


def test_coverage_counts_what_was_accepted_and_refused() -> None:
    attempt = make_attempt()
    make_run(attempt)
    make_refusal(attempt)

    coverage = queries.missing_evidence(attempt.lane.plan)[0]

    assert (coverage.accepted, coverage.refused, coverage.state) == (3, 1, "OPEN")


def test_score_rows_say_what_the_gate_needs() -> None:
    attempt = make_attempt()
    run = make_run(attempt, outcome="failed", value=0.0)

    rows = sorted(queries.score_rows([run.plan_id]), key=lambda row: row.rubric)

    key = first_run_key(attempt)
    common = (run.plan_id, run.pk, *key, attempt.pk, 1, "failed")
    assert rows == [
        (*common, "latency_s", "result", "", 12.4),
        (*common, "resolved", "check", CHECK_FINGERPRINT, 0.0),
    ]
    assert list(queries.score_rows([])) == []


def test_run_rows_are_in_order_and_cost_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    attempt = make_attempt(make_plan(epochs=3), "ordinary-2")
    for key in reversed(run_keys(attempt)):
        make_run(attempt, key)

    with django_assert_num_queries(1):
        rows = queries.run_rows([attempt.lane.plan_id])

    assert [(row.scenario, row.arm, row.epoch) for row in rows] == sorted(run_keys(attempt))
    assert {(row.lane, row.attempt_number, row.outcome) for row in rows} == {
        ("ordinary-2", 1, "passed")
    }


def test_record_items_are_those_of_class_record_that_were_accepted() -> None:
    attempt = make_attempt()
    make_run(attempt)
    make_file(attempt, "notes.txt", b"text")
    make_refusal(attempt)
    plan = attempt.lane.plan

    found = queries.record_items([plan.pk])

    folder = run_folder(first_run_key(attempt))
    assert [(row.plan, row.attempt, row.path) for row in found] == [
        (plan.digest, attempt.key, f"{folder}/result.json"),
        (plan.digest, attempt.key, f"{folder}/judge.1.ndjson"),
    ]
    assert found[0].sha256 == bytes_digest(result_bytes())


def test_lane_environments_are_read_back() -> None:
    attempt = make_attempt()
    send_members(attempt, {"lane/environment.json": b'{"tier": "containerized", "memory": true}'})

    (reported,) = queries.lane_environments(attempt.lane.plan)

    assert (reported.lane, reported.attempt) == ("ordinary-1", attempt.key)
    assert (reported.environment.tier, reported.environment.memory) == ("containerized", True)


def test_items_of_an_attempt_by_kind() -> None:
    attempt = make_attempt()
    for part in (2, 1):
        send_members(attempt, {f"lane/logs/agent.{part}.log": b"text %d" % part})

    items = queries.items_of_attempt(attempt, ItemKind.LOG)

    assert [(item.name, item.part) for item in items] == [("agent", 1), ("agent", 2)]
    assert [queries.item_bytes(item) for item in items] == [b"text 1", b"text 2"]


def test_run_is_found_with_all_around_it(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    run = make_run(make_attempt())

    with django_assert_num_queries(1):
        found = queries.run_with_id(run.pk)
        shown = f"{found.plan.project.name} {found.lane.name} #{found.attempt.number}"

    assert shown == f"{run.plan.project.name} ordinary-1 #1"

    with pytest.raises(NotFoundError, match="no run 0"):
        queries.run_with_id(0)


def one_item() -> Item:
    attempt = make_attempt()
    send_segment(attempt, make_segment(attempt, {"lane/logs/agent.1.log": b"abc" * 1000}))
    return Item.objects.select_related("segment").get()


def test_item_whose_bytes_have_changed_is_not_shown() -> None:
    item = one_item()
    with object_store().open(item.segment.object_key) as file:
        data = bytearray(file.read())
    data[item.header_offset + 30 + len(item.path) + 2] ^= 1
    with object_store().open(item.segment.object_key) as file:
        path = file.name
    with open(path, "r+b") as target:  # noqa: PTH123 - bytes of a file that a test damages
        target.write(data)

    with pytest.raises(queries.EvidenceDamagedError, match=r"lane/logs/agent\.1\.log"):
        queries.item_bytes(item)


def test_item_with_another_digest_is_not_shown() -> None:
    item = one_item()
    item.sha256 = bytes_digest(b"other")

    with pytest.raises(queries.EvidenceDamagedError, match="has changed since"):
        queries.item_bytes(item)


def test_item_whose_object_is_gone_says_so() -> None:
    item = one_item()
    object_store().delete(item.segment.object_key)

    with pytest.raises(queries.EvidenceDamagedError, match="is not in the object store any more"):
        queries.item_bytes(item)


def test_quarantine_is_listed_newest_first_and_counted() -> None:
    attempt = make_attempt()
    first = make_refusal(attempt)
    send_members(attempt, {f"{run_folder(first_run_key(attempt))}/result.json": b"{"})

    rows = list(queries.refusals_of_plan(attempt.lane.plan))

    assert rows[1] == first
    assert queries.refusal_counts(attempt.lane.plan) == {"malformed": 1, "unexpected": 1}


def test_recent_refusals_are_counted_over_all_plans_up_to_a_bound() -> None:
    make_refusal(make_attempt(), at=NOW - timedelta(minutes=61))
    for minutes in (59, 1):
        make_refusal(make_attempt(), at=NOW - timedelta(minutes=minutes))
    since = NOW - timedelta(hours=1)

    none = {"duplicate": 0, "unexpected": 0, "stale": 0, "malformed": 0, "incompatible": 0}
    assert queries.recent_refusal_counts(since, most=100) == none | {"unexpected": 2}
    assert queries.recent_refusal_counts(since, most=1) == none | {"unexpected": 1}


def test_quarantined_item_that_left_its_segment_says_so() -> None:
    refusal = make_refusal(make_attempt())
    Refusal.objects.filter(pk=refusal.pk).update(path="runs/a/b/1/other.json")
    refusal.refresh_from_db()

    with pytest.raises(queries.EvidenceDamagedError, match="not in its segment any more"):
        queries.refusal_bytes(refusal)
