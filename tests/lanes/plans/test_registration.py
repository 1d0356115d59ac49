"""What registering a plan stores, answers and refuses."""

import json
from datetime import timedelta
from typing import Any

import pytest

from evalhub.protocol.canonical import document_digest
from evalhub.web.errors import ForbiddenError, InvalidDocumentError
from lanes.budget import queries as budget_queries
from lanes.budget.models import SubAllocation
from lanes.plans import queries
from lanes.plans.models import Lane, Plan
from lanes.plans.operations import registration
from lanes.plans.operations.registration import PlanRefusedError
from lanes.projects.models import AuditEntry, Project
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

WITH_MONEY = {"pool": "judge-main", "budget_microusd": 1000}


def make_document(project: Project, **fields: Any) -> dict[str, Any]:
    policy = queries.current_policy(project) or factories.make_policy(project)
    return factories.plan_document(project, policy_digest=policy.digest, **fields)


def refusal_of(project: Project, document: dict[str, Any]) -> PlanRefusedError:
    """Return why the plan is refused, having checked that nothing of it was stored."""
    with pytest.raises(PlanRefusedError) as refusal:
        factories.register(document, project=project)
    assert Plan.objects.count() == Lane.objects.count() == SubAllocation.objects.count() == 0
    assert not AuditEntry.objects.filter(action="plan.register").exists()
    return refusal.value


def codes_of(refusal: PlanRefusedError) -> list[str | None]:
    return [fault.code for fault in refusal.faults]


def test_plan_is_stored_with_its_lanes() -> None:
    plan = factories.make_plan(epochs=2)

    assert plan.run_count == 6
    assert [(lane.name, lane.run_count) for lane in queries.lanes_of(plan)] == [
        ("ordinary-1", 2),
        ("ordinary-2", 4),
    ]
    assert (plan.state, plan.generation, plan.is_live) == ("REGISTERED", 1, True)
    assert plan.deadline_at == NOW + timedelta(minutes=240)
    assert not plan.is_verified


def test_digest_is_over_the_document_as_sent() -> None:
    project = factories.make_project()
    document = make_document(project)
    del document["excluded"], document["baseline_reason"]
    document["deadline_minutes"] = 240

    plan = factories.register(document, project=project)

    assert plan.digest == document_digest(document)
    assert json.loads(plan.document) == document
    assert queries.plan_document(plan).excluded == []


def test_registration_is_audited_with_its_actor() -> None:
    plan = factories.make_plan()

    entry = AuditEntry.objects.get(action="plan.register")
    assert (entry.project, entry.subject) == (plan.project, plan.digest)
    assert entry.actor == plan.registered_by
    assert entry.actor.startswith("token:evh_")


def test_lanes_get_their_money() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)

    plan = factories.make_plan(project, lane=WITH_MONEY)

    assert budget_queries.pool_left(pool) == 0
    spend = budget_queries.spend_of_plan(plan.digest)
    assert [(lane.lane, lane.limit_microusd) for lane in spend.by_lane] == [
        ("ordinary-1", 1000),
        ("ordinary-2", 1000),
    ]


def test_same_digest_is_answered_without_looking_again() -> None:
    project = factories.make_project()
    pool = factories.make_pool(project, limit_microusd=2000)
    document = make_document(project, lane=WITH_MONEY)
    plan = factories.register(document, project=project)
    factories.make_policy(project, alpha=0.01, at=NOW + timedelta(hours=1))

    much_later = NOW + timedelta(days=30)
    token = factories.make_token(project).token
    again = registration.register_plan(json.dumps(document).encode(), token=token, at=much_later)

    assert again == (plan, False)
    assert again.plan.registered_at == NOW
    assert budget_queries.pool_left(pool) == 0


def test_body_that_is_no_plan_is_refused_with_every_fault() -> None:
    project = factories.make_project()
    document = make_document(project, deadline_minutes="soon", weather="fine")

    with pytest.raises(InvalidDocumentError, match="The plan is not valid") as refusal:
        factories.register(document, project=project)

    pointers = {fault.pointer for fault in refusal.value.faults}
    assert pointers == {"/deadline_minutes", "/weather"}


def test_plan_of_another_project_is_forbidden() -> None:
    mine, other = factories.make_project(), factories.make_project()
    document = make_document(other)

    with pytest.raises(ForbiddenError, match="belongs to"):
        factories.register(document, project=mine)

    assert Plan.objects.count() == 0


def test_project_without_policy_registers_no_plan() -> None:
    project = factories.make_project()
    document = factories.plan_document(project, policy_digest="sha256:" + "0" * 64)

    refusal = refusal_of(project, document)

    assert codes_of(refusal) == ["policy_not_current"]
    assert "evalhub policy put" in str(refusal.fix)


def test_policy_must_be_the_current_one() -> None:
    project = factories.make_project()
    old = factories.make_policy(project)
    new = factories.make_policy(project, alpha=0.01, at=NOW + timedelta(minutes=1))

    refusal = refusal_of(project, factories.plan_document(project, policy_digest=old.digest))

    assert codes_of(refusal) == ["policy_not_current"]
    assert (refusal.faults[0].got, refusal.faults[0].expected) == (old.digest, new.digest)


def test_base_suite_knows_categories_that_the_plan_forgets() -> None:
    project = factories.make_project()
    factories.make_suite(project, scenarios=[*factories.SCENARIOS, ("see", "vision")])

    refusal = refusal_of(project, make_document(project))
    assert codes_of(refusal) == ["category_without_lane"]

    excluded = make_document(project, excluded=[{"category": "vision", "reason": "no camera"}])
    assert factories.register(excluded, project=project).run_count == 3


def test_pool_must_exist() -> None:
    project = factories.make_project()

    refusal = refusal_of(project, make_document(project, lane=WITH_MONEY))

    assert codes_of(refusal) == ["pool_unknown"]
    assert refusal.faults[0].pointer == "/lanes/0/pool"


def test_pool_must_cover_the_plan() -> None:
    project = factories.make_project()
    factories.make_pool(project, limit_microusd=1999)

    refusal = refusal_of(project, make_document(project, lane=WITH_MONEY))

    assert codes_of(refusal) == ["pool_short"]
    assert "1999" in refusal.faults[0].expected
    assert "2000" in refusal.faults[0].got


def test_every_refusal_is_told_with_its_way_out() -> None:
    project = factories.make_project()
    document = make_document(project, guards=[], rubrics=["latency_s", "unheard"], lane=WITH_MONEY)
    document["lanes"][0]["runs"].append(["refund-late", "candidate", 1])

    refusal = refusal_of(project, document)

    assert set(codes_of(refusal)) == {
        "run_key_with_two_owners",
        "category_not_declared",
        "guard_absent",
        "unknown_rubric",
        "blocking_rubric_left_out",
        "pool_unknown",
    }
    assert refusal.status == 422
    assert refusal.detail.count(".") == 1
    for sentence in ("Remove it from all lanes but one.", "Run the guard 'agent_registered'"):
        assert sentence in str(refusal.fix)


def test_rejudge_plans_come_another_way() -> None:
    project = factories.make_project()

    refusal = refusal_of(project, make_document(project, kind="rejudge"))

    assert codes_of(refusal) == ["rejudge_not_registered_here"]


def test_later_head_of_a_pull_request_supersedes_the_earlier() -> None:
    project = factories.make_project()
    later = NOW + timedelta(minutes=5)
    first = factories.make_plan(project)
    same_head = factories.make_plan(project, at=later)
    other_request = factories.make_plan(project, source={"pull_request": 13, "head_sha": "e" * 40})

    new = factories.make_plan(project, source={"head_sha": "d" * 40}, at=later)

    superseded = set(Plan.objects.filter(superseded_at=later))
    assert superseded == {first, same_head}
    assert Plan.objects.get(pk=new.pk).is_live
    assert Plan.objects.get(pk=other_request.pk).is_live


def test_without_pull_request_event_and_ref_decide() -> None:
    project = factories.make_project()
    push = {"event": "push", "ref": "refs/heads/main", "pull_request": None}
    later = NOW + timedelta(minutes=5)
    first = factories.make_plan(project, source=push)
    nightly = factories.make_plan(project, source={**push, "event": "schedule"})
    branch = factories.make_plan(project, source={**push, "ref": "refs/heads/next"})

    factories.make_plan(project, source={**push, "head_sha": "d" * 40}, at=later)

    assert set(Plan.objects.filter(superseded_at__isnull=False)) == {first}
    assert {nightly, branch} <= set(Plan.objects.filter(superseded_at=None))


def test_plans_without_head_or_ref_supersede_nothing() -> None:
    project = factories.make_project()
    manual = {"event": "manual", "ref": None, "pull_request": None}
    factories.make_plan(project, source=manual)
    factories.make_plan(project, source={**manual, "head_sha": "d" * 40})
    factories.make_plan(project, source={"head_sha": None})

    assert not Plan.objects.filter(superseded_at__isnull=False).exists()


def test_superseding_stays_within_project_and_suite() -> None:
    first = factories.make_plan()
    factories.make_plan(source={"head_sha": "d" * 40})
    suite = {
        "name": "billing",
        "version": "1",
        "digest": "sha256:" + "0" * 64,
    }
    factories.make_plan(first.project, source={"head_sha": "d" * 40}, suite=suite)

    assert not Plan.objects.filter(superseded_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_same_plan_twice_at_once_is_stored_once() -> None:
    project = factories.make_project()
    factories.make_pool(project, limit_microusd=2000)
    body = json.dumps(make_document(project, lane=WITH_MONEY)).encode()
    token = factories.make_token(project).token

    outcomes = at_once([lambda: registration.register_plan(body, token=token, at=NOW)] * 4)

    plan = Plan.objects.get()
    registrations = [o for o in outcomes if isinstance(o, registration.Registration)]
    assert [r.plan for r in registrations] == [plan] * 4
    assert sum(r.created for r in registrations) == 1
    assert Lane.objects.count() == SubAllocation.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_heads_at_once_leave_one_live() -> None:
    project = factories.make_project()
    factories.make_policy(project)

    outcomes = at_once(
        [
            lambda: factories.make_plan(project, source={"head_sha": "d" * 40}),
            lambda: factories.make_plan(project, source={"head_sha": "e" * 40}),
        ]
    )

    assert all(isinstance(outcome, Plan) for outcome in outcomes)
    assert Plan.objects.filter(superseded_at=None).count() == 1
