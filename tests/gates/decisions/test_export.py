"""A plan leaves as one archive that needs no evalhub, or as trajectories; both audited."""

import hashlib
import io
import json
import zipfile
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evalhub.protocol.canonical import bytes_digest, document_digest
from evalhub.protocol.paths import run_folder
from evidence.store.models import Segment, StorageFault
from evidence.store.operations.objects import plan_folder
from evidence.store.storage import object_store
from gates.decisions import queries
from lanes.plans.models import Attempt, Plan
from lanes.projects.models import AuditEntry, Project, Scope
from tests.evidence.factories import (
    first_run_key,
    judge_line,
    make_file,
    make_run,
    ndjson,
    result_bytes,
    seal_attempt,
    send_members,
    turn_line,
)
from tests.evidence.store.rich import Clock, make_rich_project, make_rich_store
from tests.gates.factories import concluded, make_gated_project, make_scored_plan, run_lanes, steady
from tests.lanes.factories import make_attempt, make_plan, make_project, make_suite, make_token

pytestmark = pytest.mark.django_db


def get(client: Client, plan: Plan, *scopes: Scope, form: str = "") -> Any:
    secret = make_token(plan.project, *scopes).secret
    return client.get(
        reverse("api-export", args=[plan.digest]),
        {"form": form} if form else {},
        headers={"Authorization": f"Bearer {secret}"},
    )


def archive_of(client: Client, plan: Plan) -> zipfile.ZipFile:
    answer = get(client, plan)
    assert answer.status_code == 200
    return zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))


def manifest_of(archive: zipfile.ZipFile) -> Any:
    return json.loads(archive.read("manifest.json"))


def trajectories_of(client: Client, plan: Plan) -> list[Any]:
    answer = get(client, plan, form="trajectories")
    assert answer.status_code == 200
    return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]


def test_archive_holds_everything_as_it_was_sent(client: Client) -> None:
    project = make_gated_project()
    make_suite(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"))
    conclusion = concluded(plan)

    archive = archive_of(client, plan)

    assert archive.testzip() is None
    names = archive.namelist()
    assert names[0] == "README.txt"
    assert names[-1] == "manifest.json"
    assert bytes_digest(archive.read("plan.json")) == plan.digest
    assert bytes_digest(archive.read("policy.json")) == plan.policy.digest
    assert json.loads(archive.read("conclusion.json")) == conclusion.content
    records = [name for name in names if name.startswith("records/")]
    assert len(records) == conclusion.records.count() > 0
    for name in records:
        digest = document_digest(json.loads(archive.read(name)))
        assert name == f"records/{digest.removeprefix('sha256:')}.json"
    for segment in Segment.objects.select_related("attempt__lane"):
        name = segment.object_key.split("/", 3)[3]
        assert bytes_digest(archive.read(name)) == segment.sha256
        receipt = json.loads(archive.read(name.replace(".zip", ".receipt.json")))
        assert receipt == segment.receipt
    assert not any(name.endswith("state.json") for name in names)


def test_manifest_names_every_other_file_with_its_digest(client: Client) -> None:
    plans = make_rich_store(make_rich_project(), Clock())

    archive = archive_of(client, plans.first)

    manifest = manifest_of(archive)
    assert (manifest["plan"], manifest["faults"]) == (plans.first.digest, [])
    told = {file["path"]: (file["sha256"], file["size_bytes"]) for file in manifest["files"]}
    assert {name: _told(archive.read(name)) for name in archive.namelist()[:-1]} == told
    assert any(name.endswith(".refusal.json") for name in told)


def _told(data: bytes) -> tuple[str, int]:
    return f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)


def test_archive_of_a_plan_that_nobody_ran_is_whole(client: Client) -> None:
    archive = archive_of(client, make_plan())

    names = ["README.txt", "SHA256SUMS", "manifest.json", "plan.json", "policy.json"]
    assert sorted(archive.namelist()) == names
    assert manifest_of(archive)["state"] == "registered"


def test_archive_holds_no_object_with_a_name_that_evalhub_does_not_give(client: Client) -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    folder = plan_folder(attempt.lane.plan)
    for strange in (
        "no-such-lane/att_0123456789ab/attempt.json",
        "ordinary-1/att_=cmd|calc!A1/attempt.json",
        "ordinary-1/att_\x1b[31m0123456789/seal.json",
        "ordinary-1/att_0123456789ab/0-evil.zip",
        "state.json",
    ):
        object_store().put(f"{folder}/{strange}", io.BytesIO(b"{}"))

    archive = archive_of(client, attempt.lane.plan)

    folders = {name.rpartition("/")[0] for name in archive.namelist()}
    assert folders == {"", f"ordinary-1/{attempt.key}"}
    assert "state.json" not in archive.namelist()


def test_archive_says_what_the_store_has_lost_or_damaged(client: Client) -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    lost, damaged = Segment.objects.order_by("seq")
    object_store().delete(lost.object_key)
    object_store().put(damaged.object_key, io.BytesIO(b"other"))

    archive = archive_of(client, attempt.lane.plan)

    first, second = sorted(manifest_of(archive)["faults"])
    assert first.endswith(".zip is lost.")
    assert "is damaged or lost: its bytes have sha256:" in second


def test_export_is_a_maintainers_and_audited(client: Client) -> None:
    plan = make_plan()

    assert get(client, plan, Scope.READ, Scope.PLAN_REGISTER).status_code == 403
    stranger = make_token(make_project()).secret
    headers = {"Authorization": f"Bearer {stranger}"}
    assert client.get(reverse("api-export", args=[plan.digest]), headers=headers).status_code == 403
    assert not AuditEntry.objects.filter(action="plan.export").exists()
    archive_of(client, plan)
    trajectories_of(client, plan)

    taken = AuditEntry.objects.filter(action="plan.export").order_by("pk")
    assert [(entry.subject, entry.after) for entry in taken] == [
        (plan.digest, {"form": "archive"}),
        (plan.digest, {"form": "trajectories"}),
    ]
    assert all(entry.actor.startswith("token:") for entry in taken)


def test_form_that_is_none_is_refused_in_a_sentence(client: Client) -> None:
    answer = get(client, make_plan(), form="tar")

    assert answer.status_code == 400
    assert "archive or trajectories" in answer.json()["detail"]


def test_store_that_is_away_is_told_before_anything_is_sent(
    client: Client, objects_dir: Any
) -> None:
    plan = make_plan()
    objects_dir.write_text("in the way")

    answer = get(client, plan)

    assert answer.status_code == 503
    assert StorageFault.objects.exists()
    assert not AuditEntry.objects.filter(action="plan.export").exists()


def make_trajectory(project: Project | None = None) -> Attempt:
    """Deliver one run with a long text, a fault, repeated judging and a redaction marker."""
    attempt = make_attempt(make_plan(project))
    folder = run_folder(first_run_key(attempt))
    long_text = "é" * 50_000
    digest = bytes_digest(long_text.encode())
    records = {
        f"{folder}/result.json": result_bytes("failed", faults_delivered=2),
        f"{folder}/judge.1.ndjson": ndjson(judge_line(1.0), judge_line(0.0, repeat=2)),
    }
    send_members(attempt, records)
    turns = [
        turn_line(1, "My key is [redacted:api-key]."),
        {"turn": 2, "role": "environment", "kind": "fault", "text": "429"},
        {"turn": 3, "role": "tool", "kind": "tool_result", "text": None, "body": digest},
    ]
    send_members(attempt, {f"{folder}/transcript.1.ndjson": ndjson(*turns)})
    make_file(attempt, f"body-{digest.removeprefix('sha256:')}", long_text.encode())
    seal_attempt(attempt)
    return attempt


def test_trajectory_has_transcript_scores_tier_and_faults(client: Client) -> None:
    attempt = make_trajectory()

    (run,) = trajectories_of(client, attempt.lane.plan)

    assert (run["schema"], run["plan"]) == ("evalhub.trajectory/1", attempt.lane.plan.digest)
    assert (run["scenario"]["id"], run["arm"]["model"], run["epoch"]) == (
        "order-lookup",
        "luna-6",
        1,
    )
    assert (run["tier"], run["condition"], run["outcome"]) == (
        "sandboxed_interactive",
        None,
        "failed",
    )
    (resolved,) = run["scores"]["resolved"]
    assert (resolved["stage"], resolved["value"], resolved["repeats"]) == ("check", 0.5, 2)
    (latency,) = run["scores"]["latency_s"]
    assert (latency["stage"], latency["fingerprint"], latency["value"]) == ("result", None, 12.4)
    assert run["faults"] == {"delivered": 2, "turns": [2]}
    assert [line["rationale"] for line in run["judge"]] == ["The refund exists once."] * 2
    assert run["transcript"][0]["text"] == "My key is [redacted:api-key]."
    assert run["transcript"][2]["text"] == "é" * 50_000
    assert run["attempt"] == {"key": attempt.key, "number": 1}


def test_trajectories_are_all_runs_of_all_attempts(client: Client) -> None:
    plans = make_rich_store(make_rich_project(), Clock())

    runs = trajectories_of(client, plans.first)

    assert len(runs) == plans.first.runs.count() > 4
    assert {run["attempt"]["number"] for run in runs} == {1, 2}
    assert any(run["outcome"] is None and run["transcript"] == [] for run in runs)


def test_run_whose_evidence_is_damaged_says_so_and_hinders_no_other(client: Client) -> None:
    attempt = make_trajectory()
    send_members(
        attempt_again := make_attempt(attempt.lane.plan),
        {f"{run_folder(first_run_key(attempt_again))}/result.json": result_bytes()},
    )
    transcript = Segment.objects.get(attempt=attempt, seq=2)
    object_store().put(transcript.object_key, io.BytesIO(b"other"))

    damaged, whole = trajectories_of(client, attempt.lane.plan)

    assert "cannot be read back" in damaged["unreadable"]
    assert "transcript" not in damaged
    assert (whole["outcome"], whole["attempt"]["number"]) == ("passed", 2)


def test_export_says_nothing_of_another_plan(client: Client) -> None:
    project = make_project()
    here, there = make_trajectory(project), make_trajectory(project)

    archive = archive_of(client, here.lane.plan)

    assert not any(there.key in name for name in archive.namelist())
    assert queries.newest_conclusion(here.lane.plan) is None
