"""`manage.py check_store`: what really happened to an object is named, and nothing else is."""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from evalhub.protocol.paths import run_folder
from evidence.store.models import Item, Refusal, Segment
from evidence.store.operations import documents, objects, receipts
from evidence.store.operations.check_store import Looked, store_findings
from evidence.store.operations.findings import Finding, Scope
from evidence.store.operations.intake import SegmentRefusedError
from evidence.store.storage import ObjectStore, object_store
from lanes.plans.models import Attempt, Plan
from tests.evidence.factories import (
    first_run_key,
    make_run,
    seal_attempt,
    send_members,
    send_segment,
)
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project

pytestmark = pytest.mark.django_db


def make_store(plan: Plan | None = None) -> Attempt:
    """Make a plan of which every kind of object is there; return its sealed attempt."""
    attempt = make_attempt(plan or make_plan())
    make_run(attempt)
    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, b"no archive", seq=9)
    seal_attempt(attempt)
    receipts.sweep_receipts(at=NOW)
    documents.sweep_documents(at=NOW)
    return attempt


def found(scope: Scope | None = None, *, mend: bool = False) -> list[Finding]:
    return list(store_findings(scope or Scope(), looked=Looked(), mend=mend))


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.grade.value, finding.key) for finding in findings]


def content(key: str) -> bytes:
    with object_store().open(key) as file:
        return file.read()


def put(key: str, data: bytes) -> None:
    object_store().put(key, io.BytesIO(data))


def flip_a_byte(key: str) -> None:
    data = bytearray(content(key))
    data[len(data) // 2] ^= 1
    put(key, bytes(data))


def cut_short(key: str) -> None:
    put(key, content(key)[:-1])


def empty(key: str) -> None:
    put(key, b"")


def key_of(name: str, attempt: Attempt) -> str:
    """Return the key of one of `make_store`'s objects."""
    segment = Segment.objects.get(attempt=attempt, seq=1)
    refusal = Refusal.objects.get(attempt=attempt, path="")
    folder, plan = objects.attempt_folder(attempt), objects.plan_folder(attempt.lane.plan)
    return {
        "segment": segment.object_key,
        "receipt": objects.receipt_key(segment.object_key),
        "refused": refusal.object_key,
        "reason": objects.refusal_key(refusal.object_key),
        "attempt": f"{folder}/attempt.json",
        "seal": f"{folder}/seal.json",
        "plan": f"{plan}/plan.json",
        "policy": f"{plan}/policy.json",
        "state": f"{plan}/state.json",
    }[name]


ALL = ["segment", "receipt", "refused", "reason", "attempt", "seal", "plan", "policy", "state"]
BYTES = ["segment", "refused"]


def test_store_that_is_whole_has_no_finding(either_store: ObjectStore) -> None:
    make_store()
    looked = Looked()

    findings = list(store_findings(Scope(), looked=looked))

    assert findings == []
    assert looked.plans == 1
    # Two segments with receipts, one refused with its reason, and the five other documents.
    assert looked.objects == len(list(either_store.keys())) == 11
    assert looked.bytes > 1000


@pytest.mark.parametrize("damage", [flip_a_byte, cut_short, empty])
@pytest.mark.parametrize("name", ALL)
def test_damage_is_named_whatever_was_damaged(name: str, damage: Callable[[str], None]) -> None:
    attempt = make_store()
    key = key_of(name, attempt)
    before = content(key)
    damage(key)

    assert told(found()) == [("damaged", key)]

    (finding,) = found(mend=True)
    assert finding.is_fault == (name in BYTES)
    assert (content(key) == before) == (name not in BYTES)
    assert told(found()) == ([("damaged", key)] if name in BYTES else [])


@pytest.mark.parametrize("name", ALL)
def test_loss_is_named_whatever_was_lost(name: str) -> None:
    attempt = make_store()
    key = key_of(name, attempt)
    before = content(key)
    object_store().delete(key)

    assert told(found()) == [("missing", key)]

    found(mend=True)
    assert told(found()) == ([("missing", key)] if name in BYTES else [])
    assert name in BYTES or content(key) == before


@pytest.mark.usefixtures("either_store")
def test_damage_and_loss_are_told_apart_on_both_stores() -> None:
    attempt = make_store()
    damaged = [key_of(name, attempt) for name in ("segment", "reason", "plan", "state")]
    lost = [key_of(name, attempt) for name in ("refused", "receipt", "seal")]
    for key in damaged:
        flip_a_byte(key)
    for key in lost:
        object_store().delete(key)

    findings = found()

    assert sorted(told(findings)) == sorted(
        [("damaged", key) for key in damaged] + [("missing", key) for key in lost]
    )


def test_damaged_segment_says_how_much_it_holds() -> None:
    attempt = make_store()
    flip_a_byte(key_of("segment", attempt))

    (finding,) = found()

    assert finding.sentence.startswith(f"Segment 1 of attempt {attempt.key} has changed: its ")
    assert finding.sentence.endswith("It holds 2 items that count.")


def test_whole_store_that_is_not_there_is_missing_everywhere(objects_dir: Path) -> None:
    make_store()
    objects_dir.rename(objects_dir.with_name("unmounted"))

    assert {finding.grade.value for finding in found()} == {"missing"}
    assert len(found()) == 11


@pytest.mark.usefixtures("either_store")
def test_what_nobody_vouches_for_is_extra_and_no_fault() -> None:
    attempt = make_store()
    folder, plan = objects.attempt_folder(attempt), objects.plan_folder(attempt.lane.plan)
    broken_off = objects.segment_key(attempt, seq=7, sha256="sha256:" + "0" * 64)
    keys = [
        broken_off,
        f"{folder}/note.txt",
        f"{folder}/deeper/than/evalhub/goes",
        f"{plan}/ordinary-1/stray",
        f"{plan}/notes.md",
        "lost+found",
    ]
    for key in keys:
        put(key, b"text")

    findings = found()

    assert sorted(told(findings)) == sorted(("extra", key) for key in keys)
    assert not any(finding.is_fault for finding in findings)
    (of_upload,) = [finding for finding in findings if finding.key == broken_off]
    assert "never acknowledged" in of_upload.sentence


@pytest.mark.usefixtures("either_store")
def test_evidence_without_rows_is_unindexed() -> None:
    attempt = make_store()
    segment = Segment.objects.get(attempt=attempt, seq=2)
    Item.objects.filter(segment=segment).delete()
    segment.delete()
    Refusal.objects.filter(attempt=attempt, path="").delete()
    other = make_store()
    folder = objects.plan_folder(other.lane.plan)
    stored = {key: content(key) for key in object_store().keys(f"{folder}/")}
    foreign = folder.replace("acme/", "gone/")
    for key, data in stored.items():
        put(key.replace("acme/", "gone/"), data)

    findings = found()

    assert sorted(told(findings)) == sorted(
        [
            ("unindexed", segment.object_key),
            ("unindexed", key_of_refused(attempt)),
            ("unindexed", foreign),
        ]
    )
    assert all(finding.is_fault for finding in findings)


def key_of_refused(attempt: Attempt) -> str:
    keys = object_store().keys(f"{objects.attempt_folder(attempt)}/9-")
    (key,) = [key for key in keys if key.endswith(".zip")]
    return key


def test_receipt_alone_is_a_loss() -> None:
    attempt = make_store()
    segment = Segment.objects.get(attempt=attempt, seq=2)
    Item.objects.filter(segment=segment).delete()
    segment.delete()
    object_store().delete(segment.object_key)

    (finding,) = found()

    assert told([finding]) == [("missing", objects.receipt_key(segment.object_key))]
    assert "was acknowledged, but neither its rows nor its bytes are there" in finding.sentence


def test_what_a_sweep_is_about_to_write_is_not_missed() -> None:
    attempt = make_attempt()
    make_run(attempt)
    segment = Segment.objects.get(attempt=attempt, seq=1)
    object_store().delete(objects.receipt_key(segment.object_key))

    assert found() == []


def test_attempt_that_was_opened_before_the_clock_was_set_back_is_no_damage() -> None:
    attempt = make_store()
    earlier = attempt.opened_at - timedelta(hours=1)

    Attempt.objects.update(opened_at=earlier)
    assert found() == []

    Attempt.objects.update(
        opened_at=attempt.opened_at + timedelta(hours=1), last_heard_at=NOW + timedelta(hours=2)
    )
    assert told(found()) == [("damaged", key_of("attempt", attempt))]


def test_plan_and_project_narrow_the_look() -> None:
    project = make_project()
    here, there = make_store(make_plan(project)), make_store()
    for attempt in (here, there):
        flip_a_byte(key_of("segment", attempt))
    put(f"{project.name}/note", b"text")

    assert told(found(Scope(plan=here.lane.plan))) == [("damaged", key_of("segment", here))]
    assert sorted(told(found(Scope(project=project)))) == [
        ("damaged", key_of("segment", here)),
        ("extra", f"{project.name}/note"),
    ]
    assert len(found()) == 3


def test_check_takes_the_same_queries_for_more_segments(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    attempt = make_attempt()
    folder = run_folder(first_run_key(attempt))
    for number in range(30):
        send_members(attempt, {f"{folder}/files/file-{number}": b"text"})

    with django_assert_max_num_queries(10):
        assert found() == []


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    try:
        call_command("check_store", *arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().out.splitlines()


def test_command_ends_with_0_and_says_what_was_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_store()
    put("lost+found", b"text")

    code, lines = run_command(capsys)

    assert code == 0
    assert lines[0] == "extra: lost+found: It is none of evalhub's objects."
    assert lines[1].startswith("1 plans, 12 objects, ")
    assert lines[2:] == [
        "1 extra.",
        "Extra objects harm nothing: an upload was broken off, or others put them there.",
    ]


def test_command_ends_with_1_and_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = make_store()
    object_store().delete(key_of("segment", attempt))

    code, lines = run_command(capsys, "--json", "--plan", attempt.lane.plan.digest)

    assert code == 1
    finding, summary = (json.loads(line) for line in lines)
    assert (finding["grade"], finding["key"]) == ("missing", key_of("segment", attempt))
    assert (summary["sound"], summary["missing"], summary["damaged"]) == (False, 1, 0)


def test_command_shows_names_instead_of_obeying_them(capsys: pytest.CaptureFixture[str]) -> None:
    put("a\x1b[31mred", b"text")

    _, lines = run_command(capsys)

    assert "\x1b" not in "".join(lines)
    assert r"'a\x1b[31mred'" in lines[0]


def test_command_refuses_what_it_does_not_know_in_a_sentence() -> None:
    with pytest.raises(CommandError, match="There is no project 'acme/nobody'"):
        call_command("check_store", "--project", "acme/nobody")


def test_store_that_cannot_be_read_is_no_clean_bill(objects_dir: Path) -> None:
    make_store()
    objects_dir.rename(objects_dir.with_name("away"))
    objects_dir.write_text("in the way")

    with pytest.raises(CommandError, match="could not be read"):
        call_command("check_store")
