"""Secrets that the lane let through: flagged and noted when they arrive, never refused."""

import json
import logging

import pytest

from evalhub.protocol.paths import run_folder
from evidence.store import queries
from evidence.store.models import NOTHING_FOUND, UNREADABLE, Item, Refusal
from evidence.store.operations import secrets
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.storage import object_store
from lanes.projects.models import AuditEntry
from tests.evalhub.protocol.secret_samples import AWS_KEY, GITHUB_TOKEN
from tests.evidence.factories import (
    first_run_key,
    make_file,
    make_run,
    ndjson,
    send_members,
    turn_line,
)
from tests.lanes.factories import NOW, make_attempt

pytestmark = pytest.mark.django_db


def test_an_item_with_a_secret_is_accepted_flagged_and_noted() -> None:
    attempt = make_attempt()
    path = f"{run_folder(first_run_key(attempt))}/transcript.1.ndjson"

    receipt = send_members(
        attempt, {path: ndjson(turn_line(1, f"{AWS_KEY} {GITHUB_TOKEN}"))}
    ).receipt

    assert (receipt.accepted, receipt.refused) == (1, [])
    item = Item.objects.get()
    assert item.has_secrets
    assert sum(queries.secrets_in_plan(attempt.lane.plan).values()) == 2
    assert queries.secrets_in_attempt(attempt) == queries.secrets_in_items([item])
    entry = AuditEntry.objects.get(action="evidence.secrets_found")
    assert entry.project == attempt.lane.plan.project
    assert entry.after is not None
    assert entry.after["items"] == 1
    told = json.dumps([entry.subject, entry.after, item.secrets])
    assert AWS_KEY not in told
    assert GITHUB_TOKEN not in told


def test_evidence_without_secrets_is_looked_at_and_not_flagged() -> None:
    run = make_run(make_attempt())

    assert set(run.items.values_list("secrets", flat=True)) == {NOTHING_FOUND}
    assert queries.secrets_in_plan(run.plan) == {}
    assert not AuditEntry.objects.filter(action="evidence.secrets_found").exists()


def test_shown_bytes_have_markers_and_stored_ones_are_as_they_came() -> None:
    attempt = make_attempt()
    data = f"curl -H 'Authorization: token {GITHUB_TOKEN}'".encode()
    make_file(attempt, "notes.txt", data)
    item = Item.objects.select_related("segment").get()

    shown = queries.shown_bytes(item)

    assert GITHUB_TOKEN.encode() not in shown
    assert b"[redacted:" in shown
    assert queries.item_bytes(item) == data


def test_a_secret_in_a_name_flags_the_item() -> None:
    make_file(make_attempt(), f"{GITHUB_TOKEN}.txt", b"innocent")

    item = Item.objects.get()
    assert item.has_secrets
    assert GITHUB_TOKEN in item.path
    assert GITHUB_TOKEN not in f"{item.shown_path} {item.shown_name}"


def test_words_of_a_result_in_lists_show_no_secret() -> None:
    run = make_run(
        make_attempt(),
        outcome="agent_error",
        code=GITHUB_TOKEN,
        error={"origin": "agent", "type": f"Told {AWS_KEY}", "message": "x"},
    )

    assert run.code == "[redacted:github-pat:1]"
    assert run.error_type == "Told [redacted:aws-access-token:1]"


def test_what_nobody_looked_at_is_masked_all_the_same_and_found_by_the_sweep() -> None:
    """As with what a release that did not look has received, or a large attachment."""
    attempt = make_attempt()
    make_file(attempt, "a.txt", GITHUB_TOKEN.encode())
    make_file(attempt, "b.txt", b"innocent")
    Item.objects.update(secrets=None)
    AuditEntry.objects.all().delete()
    unseen = Item.objects.select_related("segment").get(name="a.txt")
    assert GITHUB_TOKEN.encode() not in queries.shown_bytes(unseen)

    assert secrets.look_at_items(at=NOW) == 2

    assert [i.has_secrets for i in Item.objects.order_by("name")] == [True, False]
    assert AuditEntry.objects.filter(action="evidence.secrets_found").count() == 1
    assert secrets.look_at_items(at=NOW) == 0


def test_large_attachments_are_left_to_the_sweep() -> None:
    attempt = make_attempt()
    make_file(attempt, "large.txt", b"x" * (5 * 2**20) + GITHUB_TOKEN.encode())
    assert Item.objects.get().secrets is None

    secrets.look_at_items(at=NOW)

    assert Item.objects.get().has_secrets


def test_the_sweep_goes_past_what_cannot_be_read() -> None:
    attempt = make_attempt()
    make_file(attempt, "lost.txt", b"lost")
    make_file(attempt, "kept.txt", GITHUB_TOKEN.encode())
    Item.objects.update(secrets=None)
    object_store().delete(Item.objects.get(name="lost.txt").segment.object_key)

    secrets.look_at_items(at=NOW)

    lost, kept = Item.objects.get(name="lost.txt"), Item.objects.get(name="kept.txt")
    assert (lost.secrets, lost.has_secrets) == (UNREADABLE, False)
    assert kept.has_secrets


def test_reasons_of_a_refusal_quote_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))
    members = {f"{folder}/result.json": json.dumps({"outcome": GITHUB_TOKEN}).encode()}

    with caplog.at_level(logging.DEBUG):
        receipt = send_members(attempt, members).receipt

    (refused,) = receipt.refused
    assert GITHUB_TOKEN not in refused.detail
    assert "/outcome" in refused.detail
    assert GITHUB_TOKEN not in Refusal.objects.get().detail
    assert GITHUB_TOKEN not in caplog.text
    assert GITHUB_TOKEN not in json.dumps(receipt.model_dump(mode="json"))


def test_the_reason_of_a_whole_segment_quotes_no_secret() -> None:
    attempt = make_attempt()
    path = f"{run_folder(first_run_key(attempt))}/files/a"

    with pytest.raises(SegmentRefusedError) as refused:
        send_members(attempt, {path: b"a"}, project=GITHUB_TOKEN)

    assert GITHUB_TOKEN not in str(refused.value.detail)


def test_counts_in_words_fit_their_column() -> None:
    counts = {f"kind-of-a-secret-{n}": n for n in range(50)}

    assert len(secrets.counts_in_words(counts)) <= 200
    assert secrets.counts_in_words({"b": 1, "a": 2}) == "a:2 b:1"
