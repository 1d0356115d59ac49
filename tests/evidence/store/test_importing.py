"""The archive of a plan becomes a foreign plan: checked again, readable, without a say in anything."""

import base64
import hashlib
import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from evalhub.protocol.canonical import Digest, canonical_bytes
from evalhub.protocol.paths import run_folder
from evalhub.protocol.retained import parse_origin
from evidence.store.models import Item, JudgeCall, Pin, Refusal, Run, Score, Seal, Segment
from evidence.store.operations import objects
from evidence.store.operations.findings import digest_of
from evidence.store.operations.importing import (
    ArchiveRefusedError,
    ImportContradictedError,
    ImportedElsewhereError,
    PlanNativeError,
    ProjectHereError,
    import_archive,
)
from evidence.store.operations.reindex import DERIVED
from evidence.store.operations.uploads import Upload
from evidence.store.storage import object_store
from gates.checks import queries as checks
from gates.checks.operations.concluding import conclude_plan
from gates.decisions import queries as decisions
from gates.decisions.operations import export
from gates.verdicts.models import Baseline
from gates.verdicts.queries import baselines, comparators
from lanes.budget.models import LedgerEntry, SubAllocation, UnknownCost
from lanes.fidelity.models import ProbeResult
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan, PolicyVersion
from lanes.plans.operations import attempts, documents, lifecycle
from lanes.plans.operations.registration import PlanForeignError
from lanes.projects.models import AuditEntry, Notice, Project, Role
from lanes.projects.models import Scope as TokenScope
from tests.evidence.factories import make_run, run_keys, send_members
from tests.evidence.store.dumps import drop_rows, dumped_tables
from tests.evidence.store.importing import (
    CONCLUDED,
    Files,
    archive_of,
    bring,
    files_of,
    forged,
    forget_everything,
    only,
    packed,
)
from tests.evidence.store.rich import Clock, make_rich_project, make_rich_store, sweep
from tests.evidence.store.test_reindex import differences, reindexed
from tests.gates.factories import (
    concluded,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import (
    NOW,
    make_attempt,
    make_plan,
    make_project,
    make_token,
    make_user,
    register,
)

pytestmark = pytest.mark.django_db

EVIDENCE = tuple(
    label
    for label in DERIVED
    if label.startswith("evidence_store.") and label != "evidence_store.PlanCopy"
)


_made: list[bytes] = []


def rich_archive() -> bytes:
    """Return the archive of a plan with everything in it, which nobody here knows. Made once."""
    if not _made:
        _made.append(archive_of(make_rich_store(make_rich_project(), Clock()).first))
        forget_everything()
    return _made[0]


def make_same_project() -> Project:
    """Return the project of the archive's own name, in this instance."""
    return Project.objects.filter(name="acme/rich").first() or make_rich_project()


def stranger() -> Project:
    return make_project("team/reader")


@pytest.mark.usefixtures("either_store")
def test_evidence_is_what_it_was_where_it_came_from() -> None:
    plan = make_rich_store(make_rich_project(), Clock()).first
    archive = archive_of(plan)
    before = {
        model: set(rows)
        for model, rows in (
            (Item, Item.objects.filter(attempt__lane__plan=plan).values_list("path", "sha256")),
            (Run, plan.runs.values_list("scenario", "arm", "epoch", "outcome", "attempt__key")),
            (Refusal, plan.refusals.values_list("path", "category", "code", "detail", "sha256")),
            (
                Score,
                Score.objects.filter(run__plan=plan).values_list(
                    "run__scenario", "rubric", "value"
                ),
            ),
            (
                JudgeCall,
                JudgeCall.objects.filter(run__plan=plan).values_list("call_id", "value"),
            ),
            (Attempt, Attempt.objects.filter(lane__plan=plan).values_list("key", "number")),
            (
                Segment,
                Segment.objects.filter(attempt__lane__plan=plan).values_list("seq", "sha256"),
            ),
            (
                Seal,
                Seal.objects.filter(attempt__lane__plan=plan).values_list("digest", "sealed_at"),
            ),
        )
    }
    forget_everything()

    imported = bring(stranger(), archive)

    assert imported.is_new
    after = {
        Item: Item.objects.values_list("path", "sha256"),
        Run: Run.objects.values_list("scenario", "arm", "epoch", "outcome", "attempt__key"),
        Refusal: Refusal.objects.values_list("path", "category", "code", "detail", "sha256"),
        Score: Score.objects.values_list("run__scenario", "rubric", "value"),
        JudgeCall: JudgeCall.objects.values_list("call_id", "value"),
        Attempt: Attempt.objects.values_list("key", "number"),
        Segment: Segment.objects.values_list("seq", "sha256"),
        Seal: Seal.objects.values_list("digest", "sealed_at"),
    }
    assert {model: set(rows) for model, rows in after.items()} == before
    assert all(before.values())
    call_command("check_store")


def test_foreign_plan_says_where_it_came_from() -> None:
    imported = bring(stranger(), rich_archive())

    plan = imported.plan
    origin = plans_queries.origin_of(plan)
    assert origin is not None
    assert (plan.is_foreign, plan.is_verified, plan.project.name) == (True, False, "team/reader")
    assert (origin.project, origin.exported_by, origin.imported_by) == (
        "acme/rich",
        "token:maintainer",
        "admin",
    )
    assert (origin.exported_at, origin.imported_at, origin.state) == (NOW, NOW, "concluded")
    # The segments name the project that they were made for, and lie in the folder of this one.
    key = Segment.objects.values_list("object_key", flat=True)[0]
    assert key.startswith(f"team/reader/{plan.digest}/")
    with object_store().open(key) as file, zipfile.ZipFile(io.BytesIO(file.read())) as segment:
        assert json.loads(segment.read("segment.json"))["project"] == "acme/rich"
    with object_store().open(f"team/reader/{plan.digest}/foreign.json") as file:
        assert parse_origin(file.read()) == origin
    entry = AuditEntry.objects.get(action="plan.import")
    assert (entry.subject, entry.actor) == (plan.digest, "admin")
    assert entry.project == plan.project
    # Retention counts from when it ran; it stays until a maintainer unpins it.
    assert Pin.objects.get().plan == plan


def test_nothing_is_spent_and_nothing_is_said_of_simulators() -> None:
    bring(stranger(), rich_archive())

    assert JudgeCall.objects.exists()
    for model in (LedgerEntry, UnknownCost, SubAllocation, ProbeResult):
        assert not model.objects.exists(), model


def judged_archive(event: str = "push") -> tuple[bytes, dict[str, Any]]:
    """Return the archive of a concluded plan, and what was concluded."""
    project = make_gated_project()
    plan = make_scored_plan(project, event=event)
    run_lanes(plan, steady("candidate"))
    told = concluded(plan).content
    archive = archive_of(plan)
    forget_everything()
    return archive, told


def test_it_is_concluded_here_from_its_own_policy_and_no_check_hears_of_it() -> None:
    archive, told = judged_archive()
    project = stranger()
    Project.objects.filter(pk=project.pk).update(checks_for_unverified=True)

    plan = bring(project, archive).plan
    conclude_plan(plan, at=NOW)

    here = decisions.newest_conclusion(plan)
    origin = plans_queries.origin_of(plan)
    assert here is not None
    assert origin is not None
    assert here.content["evidence_digest"] == told["evidence_digest"]
    assert here.content["policy_digest"] == told["policy_digest"]
    assert (here.content["spend_microusd"], told["spend_microusd"]) == (None, 0)
    assert origin.conclusion == told
    assert checks.check_of_plan(plan) is None
    assert not Plan.objects.filter(checks.may_have_check()).exists()
    assert not Baseline.objects.exists()


def test_policy_that_came_with_it_is_never_in_force() -> None:
    archive, _ = judged_archive()
    project = stranger()

    plan = bring(project, archive).plan

    assert PolicyVersion.objects.get().is_foreign
    assert plans_queries.current_policy(project) is None
    # The same policy, registered by a maintainer, is.
    own = documents.put_policy(project, plan.policy.document.encode(), at=NOW)
    assert plans_queries.current_policy(project) == own == plan.policy


def test_foreign_plan_governs_supersedes_and_joins_nothing() -> None:
    archive, _ = judged_archive(event="schedule")
    project = make_gated_project()
    native = make_scored_plan(project, event="schedule")

    foreign = bring(project, archive).plan

    assert native.digest != foreign.digest
    assert (native.suite_name, native.tested_sha) == (foreign.suite_name, foreign.tested_sha)
    assert baselines.pooled_plans(native) == []
    assert baselines.pooled_plans(foreign) == []
    assert plans_queries.plans_of_commit(project, native.suite_name, str(native.head_sha)) == [
        native
    ]
    assert list(plans_queries.nightlies(project, native.suite_name)) == [native]
    assert not Plan.objects.filter(superseded_at__isnull=False).exists()
    document = plans_queries.plan_document(foreign)
    policy = plans_queries.policy_document(foreign.policy)
    adopted = comparators.adopted_for(foreign, document, policy, evidence_digest="")
    assert (adopted.rolling, adopted.release) == (None, None)
    told = Notice.objects.count()
    conclude_plan(foreign, at=NOW)
    assert decisions.newest_conclusion(foreign) is not None
    assert Notice.objects.count() == told


def test_lanes_of_a_foreign_plan_cannot_run() -> None:
    archive = rich_archive()
    project = make_same_project()
    plan = bring(project, archive).plan

    with pytest.raises(PlanForeignError, match="lanes ran elsewhere"):
        attempts.open_attempt(plan, "ordinary-1", at=NOW)
    with pytest.raises(PlanForeignError, match="was imported"):
        register(json.loads(plan.document), project=project)
    with pytest.raises(lifecycle.NothingToReopenError, match="none of its lanes can run here"):
        lifecycle.reopen_plan(plan, at=NOW)


def test_same_archive_again_changes_nothing() -> None:
    archive = rich_archive()
    project = stranger()
    bring(project, archive)
    before = dumped_tables()

    again = bring(project, archive, at=NOW + timedelta(days=1))

    assert not again.is_new
    assert dumped_tables() == before


def test_later_archive_of_a_plan_that_ran_adds_what_is_new() -> None:
    plan = make_plan(make_project("acme/rich"))
    attempt = make_attempt(plan)
    make_run(attempt)
    early = archive_of(plan)
    make_run(make_attempt(plan, "ordinary-2"))
    late = archive_of(plan, at=NOW + timedelta(minutes=5))
    forget_everything()
    project = stranger()

    first = bring(project, early)
    assert Run.objects.count() == 1
    second = bring(project, late, at=NOW + timedelta(hours=1))
    third = bring(project, early, at=NOW + timedelta(hours=2))

    assert (first.is_new, second.is_new, third.is_new) == (True, True, False)
    assert Run.objects.count() == 2
    plan = plans_queries.plan_with_digest(first.plan.digest)
    origin = plans_queries.origin_of(plan)
    assert origin is not None
    assert (origin.state, origin.exported_at) == ("running", NOW + timedelta(minutes=5))
    assert plan.closed_at is not None


def test_plan_that_is_here_already_is_answered_in_a_sentence() -> None:
    plan = make_rich_store(make_rich_project(), Clock()).first
    archive = archive_of(plan)

    with pytest.raises(PlanNativeError, match="was registered here"):
        bring(plan.project, archive)
    with pytest.raises(ImportedElsewhereError, match="another project of this instance"):
        bring(stranger(), archive)


def test_nobody_takes_the_digest_of_a_plan_that_a_project_here_may_register() -> None:
    archive = rich_archive()
    planned_for = make_rich_project()

    with pytest.raises(ProjectHereError, match="made for acme/rich, a project of this instance"):
        bring(stranger(), archive)

    assert not Plan.objects.exists()
    assert bring(planned_for, archive).is_new


def test_attempt_of_another_plan_is_not_taken_over() -> None:
    archive = rich_archive()
    key = only(files_of(archive), "attempt.json").split("/")[1]
    other = make_attempt(make_plan(make_project("acme/other")))
    Attempt.objects.filter(pk=other.pk).update(key=key)

    with pytest.raises(ArchiveRefusedError, match="belongs to another plan here"):
        bring(stranger(), archive)
    assert Plan.objects.count() == 1


# Tampering


def _flip(files: Files) -> None:
    name = only(files, ".zip")
    files[name] = files[name][:-40] + b"x" + files[name][-39:]


def _edit(ending: str, **fields: Any) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        name = only(files, ending)
        files[name] = canonical_bytes({**json.loads(files[name]), **fields})

    return change


def _lie_in_receipt(files: Files) -> None:
    for name in sorted(files):
        told = json.loads(files[name]) if name.endswith(".receipt.json") else {}
        if told.get("refused"):
            told["accepted"] += len(told["refused"])
            files[name] = canonical_bytes({**told, "refused": []})
            return
    raise AssertionError("no receipt refuses anything")


def _without(ending: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        del files[only(files, ending)]

    return change


def _add(path: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        files[path] = b"{}"

    return change


def _edit_tombstone(files: Files) -> None:
    for name in sorted(files):
        told = json.loads(files[name]) if name.endswith(".purged.json") else {}
        if told.get("items") and told["is_whole"]:
            files[name] = canonical_bytes({**told, "items": told["items"][1:]})
            return
    raise AssertionError("nothing that counts was removed")


def _lose_a_sealed_receipt(files: Files) -> None:
    folder = only(files, "/seal.json").rpartition("/")[0]
    del files[only({path: b"" for path in files if path.startswith(folder)}, ".receipt.json")]


def _rename_segment(files: Files) -> None:
    name = only(files, ".zip")
    files[name.replace("/1-", "/77-")] = files.pop(name)


FORGERIES: list[tuple[str, Callable[[Files], None], str]] = [
    ("segment", _flip, "which is not its name"),
    ("plan", _edit("plan.json", baseline_reason="mine"), "plan.json is plan sha256:"),
    ("policy", _edit("policy.json", alpha=0.01), "policy.json is sha256:.* the plan names"),
    ("seal", _edit("seal.json", segments=1), "seal.json names 1 segments"),
    ("seal digest", _edit("seal.json", digest="sha256:" + "0" * 64), "are not those"),
    ("receipt", _edit(".receipt.json", accepted=99), "cannot be true: its receipt says that 99"),
    ("tombstone", _edit(".purged.json", seq=7), "speaks of segment 7"),
    ("tombstone without items", _edit_tombstone, "cannot be true"),
    ("receipt of other bytes", _edit(".receipt.json", seq=7), "speaks of segment 7"),
    ("receipt that accepts all", _lie_in_receipt, "cannot be true"),
    ("attempt", _edit("attempt.json", lane="ordinary-9"), "is of attempt att_.* 'ordinary-9'"),
    ("lost segment", _without(".zip"), "speaks of a segment that the archive does not have"),
    ("lost receipt", _lose_a_sealed_receipt, "seal.json names"),
    ("lost attempt", _without("attempt.json"), "It has no .*attempt.json"),
    ("lost plan", _without("plan.json"), "It has no plan.json"),
    ("stray file", _add("evil.sh"), "evil.sh, which no export"),
    ("stray lane", _add("nobody/att_0123456789ab/attempt.json"), "has no lane 'nobody'"),
    ("renamed segment", _rename_segment, "speaks of a segment"),
    ("future", _edit("attempt.json", opened_at="2199-01-01T00:00:00Z"), "2199-01-01"),
    ("reason", _edit(".refusal.json", code="A b"), "a reason that intake never gives"),
    ("record", _add("records/" + "0" * 64 + ".json"), "which is not its name"),
    ("conclusion", _add("conclusion.json"), "conclusion.json is not of plan"),
]


@pytest.mark.parametrize(
    ("change", "said"), [row[1:] for row in FORGERIES], ids=[row[0] for row in FORGERIES]
)
def test_forged_archive_is_refused_and_leaves_nothing(
    change: Callable[[Files], None], said: str, rich: bytes
) -> None:
    project = stranger()

    with pytest.raises(ArchiveRefusedError, match=said):
        bring(project, forged(rich, change))

    assert not Plan.objects.exists()
    assert list(object_store().keys()) == []


@pytest.fixture
def rich() -> bytes:
    return rich_archive()


def test_archive_that_was_changed_without_its_manifest_is_refused(rich: bytes) -> None:
    files = files_of(rich)
    files["README.txt"] += b"!"

    with pytest.raises(ArchiveRefusedError, match=r"README\.txt has the digest sha256:.* not sha"):
        bring(stranger(), packed(files))


@pytest.mark.parametrize("cut", [10, 1000])
def test_archive_that_was_cut_short_is_refused(rich: bytes, cut: int) -> None:
    with pytest.raises(ArchiveRefusedError, match="no archive that can be read"):
        bring(stranger(), rich[:-cut])


def test_archive_of_damaged_evidence_is_refused() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    object_store().delete(Segment.objects.order_by("seq")[0].object_key)
    archive = archive_of(attempt.lane.plan)
    forget_everything()

    with pytest.raises(ArchiveRefusedError, match="had lost or damaged evidence by then"):
        bring(stranger(), archive)


def test_second_archive_that_tells_otherwise_is_refused(rich: bytes) -> None:
    project = stranger()
    bring(project, rich)
    before = dumped_tables()
    other = forged(rich, _open_a_moment_earlier)

    with pytest.raises(ImportContradictedError, match=r"attempt\.json has the digest"):
        bring(project, other)

    assert dumped_tables() == before


def _open_a_moment_earlier(files: Files) -> None:
    name = only(files, "attempt.json")
    files[name] = files[name].replace(b"000007Z", b"000006Z")


# Rows made again


@pytest.mark.usefixtures("either_store")
def test_foreign_plan_is_made_again_row_by_row(rich: bytes) -> None:
    project = make_same_project()
    plan = bring(project, rich).plan
    conclude_plan(plan, at=NOW)
    sweep(Clock())
    before = dumped_tables()
    assert before["lanes_plans.Origin"]
    drop_rows((*DERIVED, *CONCLUDED))
    PolicyVersion.objects.all().delete()

    findings, _ = reindexed()

    assert findings == []
    assert differences(before, dumped_tables()) == []
    assert PolicyVersion.objects.get().is_foreign
    call_command("check_store")


def test_foreign_plan_stays_foreign_whichever_document_is_left(rich: bytes) -> None:
    project = stranger()
    plan = bring(project, rich).plan
    sweep(Clock())
    folder = objects.plan_folder(plan)
    state = _content(f"{folder}/state.json")
    for lost, faults in (("state.json", 0), ("foreign.json", 1)):
        object_store().delete(f"{folder}/{lost}")
        drop_rows((*DERIVED, *CONCLUDED))
        PolicyVersion.objects.all().delete()

        findings, _ = reindexed()

        assert [finding.key for finding in findings] == [f"{folder}/foreign.json"] * faults
        assert plans_queries.plan_with_digest(plan.digest).is_foreign
        object_store().put(f"{folder}/state.json", io.BytesIO(state))


def test_plan_of_another_project_without_its_origin_is_not_taken_for_a_native_one(
    rich: bytes,
) -> None:
    plan = bring(stranger(), rich).plan
    folder = objects.plan_folder(plan)
    object_store().delete(f"{folder}/foreign.json")
    drop_rows((*DERIVED, *CONCLUDED))

    findings, _ = reindexed()

    assert [finding.key for finding in findings] == [f"{folder}/foreign.json"]
    assert not Plan.objects.exists()


def test_import_that_was_killed_is_finished_by_the_next(
    rich: bytes,
) -> None:
    project = stranger()
    whole = bring(project, rich)
    before = dumped_tables(EVIDENCE)
    folder = objects.plan_folder(whole.plan)
    # As it lies when the process ends before the last object is there: nothing is made of that.
    drop_rows((*DERIVED, *CONCLUDED))
    object_store().delete(f"{folder}/plan.json")
    object_store().delete(only(dict.fromkeys(object_store().keys(), b""), ".zip"))
    findings, _ = reindexed()
    assert not Plan.objects.exists()
    assert [finding.key for finding in findings] == [f"{folder}/plan.json"]

    again = bring(project, rich)

    assert again.is_new
    assert differences(before, dumped_tables(EVIDENCE)) == []


def _content(key: str) -> bytes:
    with object_store().open(key) as file:
        return file.read()


# Over HTTP


def post(client: Client, project: Project, archive: bytes, *scopes: TokenScope) -> Any:
    content_digest = base64.b64encode(hashlib.sha256(archive).digest()).decode()
    return client.post(
        reverse("api-imports", args=project.name.split("/")),
        archive,
        content_type="application/zip",
        headers={
            "Authorization": f"Bearer {make_token(project, *scopes).secret}",
            "Content-Digest": f"sha-256=:{content_digest}:",
        },
    )


@pytest.mark.django_db(transaction=True)
def test_maintainer_sends_an_archive(client: Client, rich: bytes) -> None:
    project = stranger()

    refused = post(client, project, rich, TokenScope.READ, TokenScope.PLAN_REGISTER)
    first = post(client, project, rich)
    second = post(client, project, rich)

    assert (refused.status_code, first.status_code, second.status_code) == (403, 201, 200)
    answer = first.json()
    assert (answer["foreign"], answer["origin"]["project"], answer["runs"]) == (
        True,
        "acme/rich",
        Run.objects.count(),
    )
    tampered = post(client, make_project("team/third"), rich[:-1])
    assert tampered.status_code == 422
    assert tampered.json()["code"] == "archive-refused"


def test_archive_beyond_the_limit_is_refused_unread(
    client: Client, rich: bytes, settings: Any
) -> None:
    settings.IMPORT_BYTES = len(rich) - 1

    answer = post(client, stranger(), rich)

    assert answer.status_code == 413
    assert "manage.py import_export" in answer.json()["fix"]


# Pages


def _give_a_hostile_title(files: Files) -> None:
    told = json.loads(files["conclusion.json"])
    files["conclusion.json"] = canonical_bytes({**told, "title": "<script>alert(1)</script>"})


def test_pages_say_that_it_is_foreign_and_what_was_told_there(client: Client) -> None:
    archive, told = judged_archive()
    project = stranger()
    plan = bring(project, forged(archive, _give_a_hostile_title)).plan
    conclude_plan(plan, at=NOW)
    client.force_login(make_user(project=project, role=Role.VIEWER))

    page = client.get(reverse("plan", args=[plan.digest])).content.decode()
    listing = client.get(reverse("plans")).content.decode()
    run = client.get(reverse("run", args=[Run.objects.order_by("pk")[0].pk])).content.decode()

    assert "A foreign plan" in page
    assert f"project {plans_queries.plan_document(plan).project} at http" in page
    assert f"{told['conclusion']}: &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "as the archive tells it" in page
    assert '<span class="tag">foreign</span>' in listing
    assert '<span class="tag">foreign plan</span>' in run


# Memory


@pytest.mark.slow
def test_a_large_plan_is_exported_and_imported_piece_by_piece(tmp_path: Path) -> None:
    attempt = make_attempt(make_plan(make_project("acme/big")))
    folder = run_folder(run_keys(attempt)[0])
    for part in range(3):
        send_members(attempt, {f"{folder}/files/body{part}": os.urandom(6 * 2**20)})
    plan, archive = attempt.lane.plan, tmp_path / "plan.zip"

    with most_memory() as exporting, archive.open("wb") as file:
        file.writelines(export.export_archive(plan, actor="admin", at=NOW))
    forget_everything()
    with most_memory() as importing, archive.open("rb") as file:
        digest, size = digest_of(file)
        import_archive(stranger(), Upload(file, Digest(digest), size), actor="admin", at=NOW)

    assert size > 18 * 2**20
    assert Item.objects.count() == 3
    # No more than one item and the pieces of it, however many there are.
    assert exporting.bytes < 4 * 2**20
    assert importing.bytes < 12 * 2**20


@dataclass
class Memory:
    bytes: int = 0


@contextmanager
def most_memory() -> Iterator[Memory]:
    """Say afterwards how much memory was held at most by what Python allocated meanwhile."""
    memory = Memory()
    tracemalloc.start()
    try:
        yield memory
        memory.bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
