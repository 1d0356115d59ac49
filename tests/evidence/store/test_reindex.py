"""`manage.py reindex`: every derived row is made again as it was, column by column."""

import io
import json

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import transaction

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.retained import parse_state
from evalhub.protocol.segments import Receipt
from evidence.store.models import Item, PlanCopy, Refusal, Run, Seal, Segment
from evidence.store.operations import counting, documents, objects, receipts, removals
from evidence.store.operations.findings import Finding, Scope
from evidence.store.operations.plan_rows import Tally
from evidence.store.operations.reindex import DERIVED, reindex
from evidence.store.storage import ObjectStore, object_store
from lanes.budget.models import Pool, SubAllocation
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan, PlanState, PolicyVersion
from lanes.projects.models import Project
from tests.architecture.sources import WINGS
from tests.evidence.factories import (
    make_file,
    make_run,
    make_sealed_lane,
    make_segment,
    seal_attempt,
    send_members,
    send_segment,
)
from tests.evidence.store.dumps import drop_rows, dumped_tables
from tests.evidence.store.rich import (
    Clock,
    make_first_part,
    make_plans,
    make_rich_project,
    make_rich_store,
    make_second_part,
    sweep,
)
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project

pytestmark = pytest.mark.django_db

OF_EVIDENCE = tuple(
    label for label in DERIVED if label not in {"lanes_plans.Plan", "evidence_store.PlanCopy"}
)
"""The tables that segments alone tell, without the state of a plan."""

KEPT_ELSEWHERE = {
    "evalhub_tasks.SweepRun": "of this server",
    "evidence_store.OrphanRound": "of this server",
    "evidence_store.Pin": "people pin, and sweeps",
    "evidence_store.Retention": "people set",
    "evidence_store.StorageFault": "of this server",
    "gates_checks.Check": "follows from conclusions",
    "gates_checks.RollingIssue": "follows from notices",
    "gates_decisions.Conclusion": "made anew",
    "gates_decisions.Conclusion_records": "made anew",
    "gates_verdicts.Baseline": "people adopt",
    "gates_verdicts.ChosenBaseline": "made anew",
    "gates_verdicts.DecisionRecord": "made anew",
    "lanes_fidelity.MatchRate": "made anew",
    "lanes_plans.JobBinding": "of a CI run, which binds its jobs anew",
    "lanes_plans.SuiteVersion": "from the repository",
}
"""Tables that are not made again, by what they hold. All of `lanes_projects` is none of objects'."""


def reindexed(scope: Scope | None = None) -> tuple[list[Finding], Tally]:
    """Make rows again, and let the sweeps see what is there."""
    tally = Tally()
    findings = list(reindex(scope or Scope(), tally, at=NOW))
    counting.count_stored()
    removals.sweep_removals(at=NOW)
    return findings, tally


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.grade.value, finding.key) for finding in findings]


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return the rows that only one of two dumps has, each with its table."""
    found = []
    for label in before:
        found += [f"- {label} {row}" for row in sorted(set(before[label]) - set(after[label]))]
        found += [f"+ {label} {row}" for row in sorted(set(after[label]) - set(before[label]))]
        if len(before[label]) != len(after[label]):
            found.append(f"{label}: {len(before[label])} rows, now {len(after[label])}")
    return found


def put(key: str, data: bytes) -> None:
    object_store().put(key, io.BytesIO(data))


def content(key: str) -> bytes:
    with object_store().open(key) as file:
        return file.read()


def state_key(plan: Plan) -> str:
    return f"{objects.plan_folder(plan)}/state.json"


@pytest.mark.usefixtures("either_store")
def test_every_row_is_made_again_as_it_was() -> None:
    make_rich_store(make_rich_project(), Clock())
    before = dumped_tables()
    empty = [label for label, rows in before.items() if not rows]
    assert empty == ["lanes_plans.Origin"]
    assert len(set(Refusal.objects.values_list("category", "code"))) == 13
    drop_rows()

    findings, tally = reindexed()

    assert differences(before, dumped_tables()) == []
    assert findings == []
    assert (tally.plans, tally.attempts, tally.segments) == (
        3,
        6,
        len(before["evidence_store.Segment"]),
    )
    call_command("check_store")


def test_making_rows_again_twice_changes_nothing() -> None:
    make_rich_store(make_rich_project(), Clock())
    before = dumped_tables()
    assert reindexed()[1] == Tally()
    drop_rows()
    reindexed()

    findings, tally = reindexed()

    assert (findings, tally) == ([], Tally())
    assert differences(before, dumped_tables()) == []


def test_policies_are_made_again_as_far_as_plans_need_them() -> None:
    make_rich_store(make_rich_project(), Clock())
    before = dumped_tables()
    drop_rows((*DERIVED[:1], "lanes_plans.PolicyVersion", *DERIVED[1:]))
    assert not PolicyVersion.objects.exists()

    findings, _ = reindexed()

    assert (findings, differences(before, dumped_tables())) == ([], [])
    policy = PolicyVersion.objects.get()
    assert policy.current_since == Plan.objects.earliest("registered_at").registered_at


@pytest.mark.usefixtures("either_store")
def test_rows_of_a_backup_are_brought_up_to_the_objects() -> None:
    clock = Clock()
    plans = make_plans(make_rich_project(), clock)
    attempt = make_first_part(plans, clock)
    sweep(clock)
    backup = transaction.savepoint()
    make_second_part(plans, attempt, clock)
    sweep(clock)
    before = dumped_tables(OF_EVIDENCE)
    versions = dict(Plan.objects.values_list("digest", "inputs_version"))
    transaction.savepoint_rollback(backup)
    assert Attempt.objects.count() == 2

    findings, _ = reindexed()

    # What a lane said of itself in a heartbeat, and money given to it later, is in no segment.
    lost = ("lanes_budget.SubAllocation",)
    kept = {label: rows for label, rows in before.items() if label not in lost}
    assert (findings, differences(kept, dumped_tables(tuple(kept)))) == ([], [])
    # No conclusion came back, so each plan is to be concluded anew from all of its evidence.
    for plan in Plan.objects.exclude(digest=plans.silent.digest):
        assert plan.concluded_version < plan.inputs_version <= versions[plan.digest]
        assert plan.state == PlanState.RUNNING
    assert Plan.objects.get(digest=plans.silent.digest).cancelled_at is not None
    assert not PlanCopy.objects.filter(rebuild_counted__isnull=False).exists()


def test_segments_tell_everything_but_what_was_done_to_the_plan() -> None:
    plans = make_rich_store(make_rich_project(), Clock())
    before = dumped_tables(OF_EVIDENCE)
    for plan in plans:
        object_store().delete(state_key(plan))
    drop_rows()

    findings, _ = reindexed()

    assert findings == []
    silent = {"lanes_plans.Attempt", "lanes_budget.SubAllocation"}
    kept = {label: rows for label, rows in before.items() if label not in silent}
    assert differences(kept, dumped_tables(tuple(kept))) == []
    states = dict(Attempt.objects.values_list("state", "ended_at"))
    assert set(states) == {"SUPERSEDED", "SEALED", "OPEN"}
    assert all(plan.concluded_version == 0 for plan in Plan.objects.all())


def test_evidence_that_came_after_the_state_was_told_runs_a_concluded_plan_again() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    plan = attempt.lane.plan
    Plan.objects.update(state=PlanState.CONCLUDED, concluded_version=4, inputs_version=4)
    documents.sweep_documents(at=NOW)
    assert parse_state(content(state_key(plan))).evidence == 2
    make_file(attempt, "late.txt", b"text")
    drop_rows()

    reindexed()

    made = Plan.objects.get()
    assert (made.state, made.generation) == (PlanState.RUNNING, 2)
    assert (made.inputs_version, made.concluded_version) == (5, 4)
    assert Item.objects.filter(name="late.txt").exists()


def test_attempt_and_seal_that_came_after_the_state_was_told_are_known_again() -> None:
    plan = make_plan()
    first = make_attempt(plan)
    documents.sweep_documents(at=NOW)
    make_sealed_lane(first)
    second = make_attempt(plan)
    make_run(second)
    before = dumped_tables(("lanes_plans.Attempt",))
    sealed = Seal.objects.values_list("attempt__key", "segments", "digest", "sealed_at").get()
    versions = Plan.objects.get().inputs_version
    drop_rows()

    reindexed()

    assert differences(before, dumped_tables(tuple(before))) == []
    known = Seal.objects.values_list("attempt__key", "segments", "digest", "sealed_at")
    assert known.get() == sealed
    assert Plan.objects.get().state == PlanState.RUNNING
    assert Plan.objects.get().inputs_version >= versions


class StoppedError(Exception):
    """What a killed process would not even say."""


class StoppingTally(Tally):
    """Ends the reindexing once so many segments have been made."""

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, value)
        if name == "segments" and value == 4:
            raise StoppedError


def test_what_one_reindex_has_half_done_another_one_ends() -> None:
    make_rich_store(make_rich_project(), Clock())
    before = dumped_tables()
    drop_rows()
    for _ in range(5):
        with pytest.raises(StoppedError):
            list(reindex(Scope(), StoppingTally(), at=NOW))
        assert PlanCopy.objects.filter(rebuild_counted__isnull=False).exists()
    assert Segment.objects.count() == 20

    findings, tally = reindexed()

    assert (findings, tally.segments) == ([], len(before["evidence_store.Segment"]) - 20)
    assert differences(before, dumped_tables()) == []


def test_plan_of_which_a_part_is_made_is_not_told_as_its_state() -> None:
    make_rich_store(make_rich_project(), Clock())
    states = {plan.digest: content(state_key(plan)) for plan in Plan.objects.all()}
    drop_rows()
    with pytest.raises(StoppedError):
        list(reindex(Scope(), StoppingTally(), at=NOW))

    documents.sweep_documents(at=NOW)

    half_made = Plan.objects.filter(copy__rebuild_counted__isnull=False)
    assert half_made.exists()
    assert all(content(state_key(plan)) == states[plan.digest] for plan in half_made)


def make_small_store() -> Attempt:
    """Make a plan with one run in two segments, sealed, with all that lies beside them."""
    attempt = make_attempt(make_plan(make_project("acme/small")))
    make_run(attempt)
    seal_attempt(attempt)
    receipts.sweep_receipts(at=NOW)
    documents.sweep_documents(at=NOW)
    counting.count_stored()
    return attempt


def key_of(attempt: Attempt, seq: int) -> str:
    return Segment.objects.get(attempt=attempt, seq=seq).object_key


def test_damaged_segment_is_left_out_and_the_others_are_made() -> None:
    attempt = make_small_store()
    key = key_of(attempt, 2)
    put(key, content(key)[:-1] + b"x")
    drop_rows()

    findings, tally = reindexed()

    assert told(findings) == [("damaged", key)]
    assert tally.segments == 1
    assert list(Segment.objects.values_list("seq", flat=True)) == [1]
    assert Run.objects.get().outcome == "passed"


def test_lost_segment_is_told_and_comes_back_when_its_bytes_do() -> None:
    attempt = make_small_store()
    before = dumped_tables()
    key = key_of(attempt, 1)
    data = content(key)
    object_store().delete(key)
    drop_rows()

    assert told(reindexed()[0]) == [("missing", key)]

    put(key, data)
    assert reindexed()[0] == []
    changed = ("lanes_plans.Plan", "evidence_store.PlanCopy")
    same = tuple(label for label in DERIVED if label not in changed)
    assert differences({label: before[label] for label in same}, dumped_tables(same)) == []
    # It was concluded from less, if it was: the plan's inputs have moved.
    assert (
        Plan.objects.get().inputs_version
        > json.loads(before["lanes_plans.Plan"][0])["inputs_version"]
    )


@pytest.mark.parametrize("data", [b"", b"{", b'{"seq": 1}', b"\xff"])
def test_receipt_that_cannot_be_read_is_told(data: bytes) -> None:
    attempt = make_small_store()
    receipt = objects.receipt_key(key_of(attempt, 1))
    put(receipt, data)
    drop_rows()

    findings, _ = reindexed()

    assert told(findings) == [("damaged", receipt)]


def test_receipt_of_other_bytes_is_told() -> None:
    attempt = make_small_store()
    first, second = key_of(attempt, 1), key_of(attempt, 2)
    put(objects.receipt_key(first), content(objects.receipt_key(second)))
    drop_rows()

    assert told(reindexed()[0]) == [("damaged", first)]


@pytest.mark.parametrize(
    ("receipt", "said"),
    [
        ({"accepted": 3}, "says that 3 items were accepted, but it has 2"),
        (
            {"refused": [{"path": "a/b", "category": "stale", "code": "late", "detail": "Late."}]},
            "refuses 'a/b', which it does not have",
        ),
    ],
)
def test_receipt_that_its_segment_contradicts_is_told(
    receipt: dict[str, object], said: str
) -> None:
    attempt = make_small_store()
    key = objects.receipt_key(key_of(attempt, 1))
    put(key, json.dumps({**json.loads(content(key)), **receipt}).encode())
    drop_rows()

    (finding,) = reindexed()[0]

    assert (finding.grade, finding.key) == ("damaged", key.replace(".receipt.json", ".zip"))
    assert said in finding.sentence


def test_what_was_decided_stands_whatever_would_be_decided_now() -> None:
    attempt = make_attempt(make_plan())
    folder = "runs/order-lookup/candidate/1"
    send_members(attempt, {f"{folder}/files/one": b"one", f"{folder}/files/two": b"two"})
    key = objects.receipt_key(Segment.objects.get().object_key)
    refusal = {"category": "malformed", "code": "ugly", "detail": "Nobody liked it."}
    receipt = {**json.loads(content(key)), "accepted": 1}
    receipt["refused"] = [{"path": f"{folder}/files/one", **refusal}]
    put(key, json.dumps(receipt).encode())
    documents.sweep_documents(at=NOW)
    drop_rows()

    assert reindexed()[0] == []

    assert Item.objects.get().name == "two"
    made = Refusal.objects.get()
    assert (made.category, made.code, made.detail) == tuple(refusal.values())
    assert Receipt.model_validate(Segment.objects.get().receipt, strict=False).accepted == 1


def test_segment_that_was_stored_and_never_answered_is_taken_while_its_attempt_is_open() -> None:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    documents.sweep_documents(at=NOW)
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"last words"}, seq=3)
    key = objects.segment_key(attempt, seq=3, sha256=bytes_digest(data))
    broken = objects.segment_key(attempt, seq=4, sha256=bytes_digest(b"no archive"))
    put(key, data)
    put(broken, b"no archive")
    drop_rows()

    findings, tally = reindexed()

    assert findings == []
    assert (tally.segments, tally.refused_segments) == (3, 1)
    assert Item.objects.get(kind="log").segment.object_key == key
    assert object_store().exists(objects.receipt_key(key))
    assert object_store().exists(objects.refusal_key(broken))
    # The lane that tries again gets the receipt.
    assert not send_segment(attempt_again(attempt), data, seq=3).is_new


def attempt_again(attempt: Attempt) -> Attempt:
    return plans_queries.attempt_with_key(attempt.key)


def test_segment_that_was_never_answered_is_left_when_its_attempt_has_ended() -> None:
    attempt = make_small_store()
    data = make_segment(attempt, {"lane/logs/agent.1.log": b"last words"}, seq=3)
    key = objects.segment_key(attempt, seq=3, sha256=bytes_digest(data))
    other = objects.segment_key(attempt, seq=1, sha256=bytes_digest(b"other"))
    put(key, data)
    put(other, b"other")
    drop_rows()

    findings, _ = reindexed()

    assert told(findings) == [("extra", other), ("extra", key)]
    assert not any(finding.is_fault for finding in findings)
    assert Segment.objects.count() == 2


def test_seq_that_has_other_bytes_by_now_is_told() -> None:
    attempt = make_attempt(make_plan())
    make_file(attempt, "a", b"text")
    old = Segment.objects.get()
    _forget(old)
    make_file(attempt, "b", b"text")

    findings, _ = reindexed()

    assert told(findings) == [("unindexed", old.object_key)]
    assert Item.objects.get().name == "b"


def test_attempt_whose_number_was_given_again_is_told() -> None:
    plan = make_plan()
    lost = make_attempt(plan)
    make_run(lost)
    folder = objects.attempt_folder(lost)
    drop_rows(DERIVED[DERIVED.index("lanes_plans.Attempt") :])
    make_attempt(plan)

    findings, _ = reindexed()

    assert told(findings) == [("unindexed", folder)]
    assert "has another attempt 1 by now" in findings[0].sentence


def test_plan_without_its_document_is_told() -> None:
    attempt = make_small_store()
    key = f"{objects.plan_folder(attempt.lane.plan)}/plan.json"
    document = content(key)
    drop_rows()
    object_store().delete(key)

    assert told(reindexed()[0]) == [("missing", key)]
    put(key, document.replace(b"support", b"sabotage"))
    assert told(reindexed()[0]) == [("damaged", key)]
    assert not Plan.objects.exists()


def test_project_that_is_not_there_is_asked_for() -> None:
    attempt = make_small_store()
    folder = objects.plan_folder(attempt.lane.plan)
    drop_rows()
    Project.objects.update(name="acme/renamed")

    (finding,) = reindexed()[0]

    assert (finding.grade, finding.key) == ("unindexed", folder)
    assert "manage.py create_project" in finding.sentence


def test_command_claims_nothing_where_it_could_make_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_small_store()
    drop_rows()
    Project.objects.update(name="acme/renamed")

    code, lines = run_command(capsys)

    assert code == 1
    assert lines[1:] == ["No row was made: what is named above stands in the way."]


def test_policy_that_is_nowhere_is_asked_for() -> None:
    attempt = make_small_store()
    key = f"{objects.plan_folder(attempt.lane.plan)}/policy.json"
    object_store().delete(key)
    drop_rows((*DERIVED[:1], "lanes_plans.PolicyVersion", *DERIVED[1:]))

    (finding,) = reindexed()[0]

    assert (finding.grade, finding.key) == ("missing", key)
    assert "evalhub policy put" in finding.sentence


def test_pool_that_is_not_there_is_asked_for_and_given_from_later() -> None:
    make_rich_store(make_rich_project(), Clock())
    before = dumped_tables()
    pool = Pool.objects.get()
    drop_rows()
    Pool.objects.update(name="another")

    findings, _ = reindexed()
    assert {finding.grade.value for finding in findings} == {"unindexed"}
    assert "evalhub pool put" in findings[0].sentence
    assert not SubAllocation.objects.exists()

    Pool.objects.update(name=pool.name)
    assert reindexed()[0] == []
    assert differences(before, dumped_tables()) == []


@pytest.mark.usefixtures("either_store")
def test_documents_that_are_damaged_are_told_and_hinder_no_evidence() -> None:
    attempt = make_small_store()
    folder = objects.attempt_folder(attempt)
    evidence = ("evidence_store.Item", "evidence_store.Score", "evidence_store.Segment")
    before = dumped_tables(evidence)
    broken = [f"{folder}/attempt.json", f"{folder}/seal.json"]
    for key in broken:
        put(key, b"[]")
    drop_rows()

    findings, _ = reindexed()

    # The state names the attempt too.
    assert told(findings) == [("damaged", f"{folder}/seal.json")]
    assert differences(before, dumped_tables(evidence)) == []
    put(state_key(attempt.lane.plan), b"[]")
    drop_rows()
    keys = {key for _, key in told(reindexed()[0])}
    assert keys == {f"{folder}/attempt.json", state_key(attempt.lane.plan)}


@pytest.mark.parametrize("column", ["registered_at", "inputs_version", "deadline_at"])
def test_state_with_a_value_that_is_none_is_passed_over(column: str) -> None:
    attempt = make_small_store()
    key = state_key(attempt.lane.plan)
    state = parse_state(content(key))
    wrong = state.model_copy(update={"columns": {**state.columns, column: "soon"}})
    put(key, objects.document_bytes(wrong.with_digest()))
    drop_rows()

    findings, tally = reindexed()

    assert told(findings) == [("damaged", key)]
    assert (tally.plans, tally.segments) == (1, 2)
    assert Plan.objects.get().registered_at == attempt.opened_at


def test_scope_leaves_others_alone() -> None:
    here, there = make_small_store(), make_attempt(make_plan(make_project("acme/other")))
    make_run(there)
    documents.sweep_documents(at=NOW)
    drop_rows()

    reindexed(Scope(project=Project.objects.get(name="acme/small")))

    assert [plan.digest for plan in Plan.objects.all()] == [here.lane.plan.digest]


def test_objects_of_others_are_passed_over(either_store: ObjectStore) -> None:
    make_small_store()
    for key in ("stray", "a/b/c/x", "a/b/c/d/e/f", ".probe/x"):
        put(key, b"text")
    put(f"acme/small/sha256:{'0' * 64}/notes.txt", b"text")
    before = dumped_tables()
    drop_rows()

    findings, _ = reindexed()

    assert differences(before, dumped_tables()) == []
    assert [grade for grade, _ in told(findings)] == ["missing"]


def test_every_table_is_made_again_or_said_to_be_kept_elsewhere() -> None:
    ours = [c for c in apps.get_app_configs() if c.name.split(".")[0] in WINGS]
    tables = {
        model._meta.label
        for config in ours
        for model in config.get_models(include_auto_created=True)
        if config.label != "lanes_projects"
    }
    inputs = {
        "lanes_plans.PolicyVersion",
        "lanes_plans.ExpectedSchedule",
        "lanes_budget.Pool",
    }

    assert tables - set(DERIVED) - set(KEPT_ELSEWHERE) - inputs == set()
    assert set(DERIVED) <= tables


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    try:
        call_command("reindex", *arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().out.splitlines()


def test_command_says_what_was_made_and_what_no_object_tells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_small_store()
    drop_rows()

    code, lines = run_command(capsys)

    assert code == 0
    assert lines[0] == "Made again: 1 plans, 1 attempts, 2 segments."
    assert lines[1] == "Not in the object store:"
    assert any("evalhub baseline adopt" in line for line in lines[2:])
    assert run_command(capsys) == (0, ["The rows have everything that the objects tell."])


def test_command_ends_with_1_and_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = make_small_store()
    key = key_of(attempt, 2)
    object_store().delete(key)
    drop_rows()

    code, lines = run_command(capsys, "--json")

    assert code == 1
    finding, summary = (json.loads(line) for line in lines)
    assert (finding["grade"], finding["key"]) == ("missing", key)
    assert summary == {
        "whole": False,
        "plans": 1,
        "attempts": 1,
        "segments": 1,
        "refused_segments": 0,
        "removed_segments": 0,
    }


def test_command_refuses_what_it_does_not_know_in_a_sentence() -> None:
    with pytest.raises(CommandError, match="There is no project 'acme/nobody'"):
        call_command("reindex", "--project", "acme/nobody")


def _forget(segment: Segment) -> None:
    Item.objects.filter(segment=segment).delete()
    Refusal.objects.filter(segment=segment).delete()
    segment.delete()
