"""A generated store is one that production could have written: its documents, bytes, rows and pages."""

import io
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.refusals import BaseSuite
from evalhub.protocol.registration import registration_refusals
from evidence.store import queries as store
from evidence.store.models import Item, JudgeCall, Refusal, Run, Score, Segment
from evidence.store.operations.reading import AcceptedItem, Expected, sorted_segment
from evidence.store.storage import object_store
from gates.checks.models import Check
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from gates.verdicts.models import DecisionRecord
from gates.verdicts.queries.evaluation import evaluate
from lanes.budget.models import LedgerEntry, SubAllocation
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan, PlanState, SuiteVersion
from lanes.projects.models import Project
from tests.lanes.factories import make_user

pytestmark = pytest.mark.slow

RUNS = 1_500


def generate(**options: Any) -> None:
    wanted = {"runs": RUNS, "projects": 1, "until": "2026-11-29", **options}
    call_command("generate", stdout=io.StringIO(), stderr=io.StringIO(), **wanted)


@pytest.fixture
def generated(db: None) -> None:
    generate()


@pytest.mark.usefixtures("generated")
def test_generate_writes_as_many_runs_as_asked_for() -> None:
    assert Run.objects.count() == RUNS
    assert {p.state for p in Plan.objects.all()} == {PlanState.CONCLUDED, PlanState.RUNNING}
    assert Refusal.objects.exists()
    assert Attempt.objects.filter(state="SUPERSEDED").exists()


@pytest.mark.usefixtures("generated")
def test_plans_would_be_registered() -> None:
    suites = {s.digest: plan_queries.suite_document(s) for s in SuiteVersion.objects.all()}
    for plan in Plan.objects.select_related("policy"):
        assert bytes_digest(plan.document.encode()) == plan.digest
        document = plan_queries.plan_document(plan)
        refusals = registration_refusals(
            document,
            policy=plan_queries.policy_document(plan.policy),
            base=BaseSuite(plan.suite_digest, suites[plan.suite_digest]),
            at=plan.registered_at,
        )
        assert refusals == []
        assert plan.run_count == sum(len(lane.runs) for lane in document.lanes)
        assert [lane.name for lane in document.lanes] == [
            x.name for x in plan_queries.lanes_of(plan)
        ]


@pytest.mark.usefixtures("generated")
def test_segments_hold_what_intake_would_find_in_them() -> None:
    segments = Segment.objects.select_related("attempt__lane__plan__project")

    assert segments
    for segment in segments:
        attempt = segment.attempt
        plan = attempt.lane.plan
        with object_store().open(segment.object_key) as file:
            data = file.read()
        content = sorted_segment(
            io.BytesIO(data),
            expected=Expected(
                project=plan.project.name,
                plan=plan.digest,
                lane=attempt.lane.name,
                attempt=attempt.key,
                tested_sha=plan.tested_sha,
                opened_at=attempt.opened_at,
                received_at=segment.received_at,
                clock_shown_at=segment.received_at,
                owners=store.plan_facts(plan).owners,
            ),
            seq=segment.seq,
        )
        assert content.refused == []
        assert (segment.sha256, segment.size_bytes) == (bytes_digest(data), len(data))
        assert {_columns(item) for item in content.accepted} == set(
            Item.objects.filter(segment=segment).values_list(
                *("path", "kind", "part", "name", "sha256"),
                *("header_offset", "stored_bytes", "size_bytes", "lines"),
            )
        )
        lines = [line for item in content.accepted for line in item.content.judge_lines]
        assert {(x.call_id, x.rubric, x.value, x.fingerprint) for x in lines} == set(
            JudgeCall.objects.filter(item__segment=segment).values_list(
                "call_id", "rubric", "value", "fingerprint"
            )
        )
        results = {i.item.run: i.content.result for i in content.accepted if i.content.result}
        for key, result in results.items():
            assert key is not None
            run = Run.objects.get(attempt=attempt, **key._asdict())
            assert (run.outcome, run.duration_ms) == (result.outcome, result.duration_ms)
            assert run.started_at == result.started_at
            assert run.transcript_parts == result.transcript_parts
            measured = Score.objects.filter(run=run, stage="result")
            assert dict(measured.values_list("rubric", "value")) == {
                name: value for name, value in result.scores.items() if value is not None
            }


def _columns(accepted: AcceptedItem) -> tuple[Any, ...]:
    item, member = accepted.item, accepted.member
    return (
        *(accepted.path, item.kind.value, item.part, item.name, accepted.sha256),
        *(member.header_offset, member.stored_bytes, member.size_bytes, accepted.content.lines),
    )


@pytest.mark.usefixtures("generated")
def test_money_adds_up() -> None:
    assert LedgerEntry.objects.count() == JudgeCall.objects.count() > 0
    booked: Counter[tuple[str, str]] = Counter()
    for entry in LedgerEntry.objects.all():
        booked[entry.plan, entry.lane] += entry.cost_microusd or 0
    allocations = SubAllocation.objects.all()
    assert {(a.plan, a.lane): a.spent_microusd for a in allocations} == {
        (a.plan, a.lane): booked[a.plan, a.lane] for a in allocations
    }


@pytest.mark.usefixtures("generated")
def test_conclusions_name_their_own_evidence_and_records() -> None:
    concluded = Plan.objects.filter(state=PlanState.CONCLUDED)

    assert concluded
    for plan in concluded:
        (conclusion,) = Conclusion.objects.filter(plan=plan)
        assert conclusion.content["plan"] == plan.digest
        assert conclusion.content["evidence_digest"] == evaluate(plan).own_evidence
        assert {v["record"] for v in conclusion.content["verdicts"]} == set(
            DecisionRecord.objects.filter(plan=plan).values_list("digest", flat=True)
        )
        assert Check.objects.filter(project=plan.project, head_sha=plan.head_sha).exists()
    assert len({c.conclusion for c in Conclusion.objects.all()}) > 1


@pytest.mark.usefixtures("generated")
def test_open_plan_is_concluded_by_the_real_operation() -> None:
    plan = Plan.objects.get(state=PlanState.RUNNING)

    conclusion = conclude(plan, at=plan.deadline_at + timedelta(minutes=1))

    assert conclusion is not None
    assert conclusion.conclusion == "failure"


@pytest.mark.usefixtures("generated")
def test_pages_open(client: Client) -> None:
    client.force_login(make_user(project=Project.objects.get()))
    refusal = Refusal.objects.select_related("plan").first()
    run = Run.objects.filter(outcome="failed").first()
    assert refusal is not None
    assert run is not None
    paths = [f"/plans/{plan.digest}/" for plan in Plan.objects.all()]
    paths += [f"/plans/{refusal.plan.digest}/quarantine/", f"/plans/{refusal.plan.digest}/runs/"]
    paths += [f"/plans/{run.plan.digest}/lanes/{run.lane.name}/", f"/runs/{run.pk}/", "/plans/"]

    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
    assert b"open cases" in client.get(f"/runs/{run.pk}/").content


def _content() -> list[Any]:
    """Return what the store says, apart from numbers that the database gave out."""
    return [
        list(Plan.objects.order_by("pk").values_list("digest", "registered_at", "superseded_at")),
        list(Segment.objects.order_by("pk").values_list("sha256", "object_key")),
        list(JudgeCall.objects.order_by("pk").values_list("call_id", "value")),
        json.dumps(list(Conclusion.objects.order_by("pk").values_list("content", flat=True))),
    ]


@pytest.mark.django_db
def test_equal_seeds_give_equal_stores() -> None:
    found = []
    for seed in (7, 7, 8):
        with transaction.atomic():
            generate(seed=seed, runs=500)
            found.append(_content())
            transaction.set_rollback(True)

    assert found[0] == found[1]
    assert all(one != other for one, other in zip(found[0], found[2], strict=True))


@pytest.mark.django_db
def test_generate_refuses_a_store_in_use_unless_told() -> None:
    generate(runs=200)

    with pytest.raises(CommandError, match=r"has the project generated/agent-0.*--add"):
        generate(runs=200, seed=2)
    with pytest.raises(CommandError, match="has the plans of seed 1 already"):
        generate(runs=200, add=True)
    generate(runs=300, seed=2, add=True)

    assert Run.objects.filter(plan__project=Project.objects.get()).count() == 500
