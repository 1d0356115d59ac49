"""The endpoints of suites, policies and plans: what they answer, what they refuse."""

import json
from typing import Any

import pytest
import yaml
from django.utils import timezone

from evalhub.protocol.canonical import document_digest
from evalhub.protocol.messages import Registered
from evalhub.protocol.plan import Plan as PlanDocument
from lanes.plans import queries
from lanes.plans.models import Lane, Plan, PolicyVersion, SuiteVersion
from lanes.projects.models import AuditEntry, Project, Scope
from tests.lanes import factories
from tests.lanes.factories import POLICY
from tests.lanes.wire import Answer, assert_problem, send

pytestmark = pytest.mark.django_db

UNKNOWN = "sha256:" + "0" * 64


def document_of(project: Project, **fields: Any) -> dict[str, Any]:
    policy = queries.current_policy(project) or factories.make_policy(project)
    fields.setdefault("policy_digest", policy.digest)
    return factories.plan_document(project, at=timezone.now(), **fields)


def secret_of(project: Project, *scopes: Scope) -> str:
    return factories.make_token(project, *scopes).secret


def register(project: Project, body: object) -> Answer:
    return send("POST", "/plans", body, secret=secret_of(project, Scope.PLAN_REGISTER))


# Suite and policy


@pytest.mark.parametrize("content_type", ["application/yaml", "text/yaml; charset=utf-8"])
def test_policy_is_put_as_yaml_and_read_as_json(content_type: str) -> None:
    project = factories.make_project()
    path = f"/projects/{project.name}/policy"

    put = send(
        "PUT",
        path,
        yaml.safe_dump(POLICY).encode(),
        secret=secret_of(project),
        content_type=content_type,
    )
    got = send("GET", path, secret=secret_of(project, Scope.PLAN_REGISTER))

    assert put.status == got.status == 200
    assert put.body["digest"] == got.body["digest"] == document_digest(POLICY)
    assert got.body["policy"] == POLICY


def test_suite_is_put_and_read_by_name() -> None:
    project = factories.make_project()
    path = f"/projects/{project.name}/suite"

    put = send("PUT", path, factories.suite_document(), secret=secret_of(project))
    got = send("GET", f"{path}?name=support", secret=secret_of(project, Scope.READ))

    assert (put.status, put.body["name"]) == (200, "support")
    assert document_digest(got.body["suite"]) == put.body["digest"]


def test_change_of_policy_is_audited_with_its_token() -> None:
    project = factories.make_project()
    token, secret = factories.make_token(project)

    send("PUT", f"/projects/{project.name}/policy", POLICY, secret=secret)

    entry = AuditEntry.objects.get(action="policy.put")
    assert entry.actor == f"token:{token.prefix}… {token.name}"


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PLAN_REGISTER, Scope.LANE_WRITE])
@pytest.mark.parametrize("kind", ["suite", "policy"])
def test_only_a_maintainer_puts_documents(kind: str, scope: Scope) -> None:
    project = factories.make_project()

    answer = send(
        "PUT", f"/projects/{project.name}/{kind}", POLICY, secret=secret_of(project, scope)
    )

    assert_problem(answer, 403, "forbidden")
    assert PolicyVersion.objects.count() == SuiteVersion.objects.count() == 0


@pytest.mark.parametrize("kind", ["suite", "policy"])
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"schema": "evalhub.plan/1"}', b"\xff"])
@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
def test_documents_that_are_none_are_refused(kind: str, body: bytes, content_type: str) -> None:
    project = factories.make_project()

    answer = send(
        "PUT",
        f"/projects/{project.name}/{kind}",
        body,
        secret=secret_of(project),
        content_type=content_type,
    )

    problem = assert_problem(answer, 422, "invalid-document")
    assert problem.detail.startswith(f"The {kind} is not valid: ")
    assert problem.errors


@pytest.mark.parametrize("content_type", ["text/html", "", "multipart/form-data"])
def test_other_notations_are_refused(content_type: str) -> None:
    project = factories.make_project()

    answer = send(
        "PUT",
        f"/projects/{project.name}/policy",
        POLICY,
        secret=secret_of(project),
        content_type=content_type,
    )

    assert_problem(answer, 415, "unsupported-media-type")


def test_documents_that_are_absent_are_said_to_be() -> None:
    project = factories.make_project()
    secret = secret_of(project)

    assert_problem(send("GET", f"/projects/{project.name}/policy", secret=secret), 404, "not-found")
    suite = f"/projects/{project.name}/suite"
    assert_problem(send("GET", f"{suite}?name=support", secret=secret), 404, "not-found")
    assert_problem(send("GET", suite, secret=secret), 400, "bad-parameter")


# Registration


def test_registering_answers_where_lanes_begin() -> None:
    project = factories.make_project()
    document = document_of(project)

    created = register(project, document)
    repeated = register(project, document)

    assert (created.status, repeated.status) == (201, 200)
    assert created.body == repeated.body
    answer = Registered.model_validate_json(json.dumps(created.body))
    assert answer.digest == document_digest(document)
    assert not answer.verified
    assert [lane.name for lane in answer.lanes] == ["ordinary-1", "ordinary-2"]
    assert answer.lanes[0].attempts_url == (
        f"http://testserver/api/v1/plans/{answer.digest}/lanes/ordinary-1/attempts"
    )
    assert answer.url == f"http://testserver/plans/{answer.digest}/"


def test_refusal_lists_every_reason_with_its_code() -> None:
    project = factories.make_project()
    document = document_of(project, guards=[], rubrics=["resolved", "unheard"])

    problem = assert_problem(register(project, document), 422, "plan-refused")

    assert [error.code for error in problem.errors] == ["guard_absent", "unknown_rubric"]
    assert problem.errors[1].pointer == "/rubrics/1"
    assert problem.errors[1].got == "'unheard'"
    assert "latency_s" in problem.errors[1].expected
    assert problem.fix is not None
    assert problem.fix.count(".") == 2
    assert Plan.objects.count() == Lane.objects.count() == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"null",
        b"[]",
        b"{}",
        b'{"schema": "evalhub.plan/2"}',
        b"\x00",
        b'"\\ud800"',
    ],
)
def test_bodies_that_are_no_plan_are_refused(body: bytes) -> None:
    project = factories.make_project()

    problem = assert_problem(register(project, body), 422, "invalid-document")

    assert problem.detail.startswith("The plan is not valid: ")
    assert Plan.objects.count() == 0


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"deadline_minutes": 0}, "/deadline_minutes"),
        ({"deadline_minutes": True}, "/deadline_minutes"),
        ({"deadline_minutes": "240"}, "/deadline_minutes"),
        ({"policy_digest": "sha256:abc"}, "/policy_digest"),
        ({"colour": "red"}, "/colour"),
        ({"lanes": {}}, "/lanes"),
        ({"source": {"event": "moon"}}, "/source/event"),
        ({"source": {"head_sha": "HEAD"}}, "/source/head_sha"),
    ],
)
def test_wrong_field_is_named(fields: dict[str, Any], pointer: str) -> None:
    project = factories.make_project()

    problem = assert_problem(
        register(project, document_of(project, **fields)), 422, "invalid-document"
    )

    assert [error.pointer for error in problem.errors] == [pointer]
    assert pointer in problem.detail


def test_number_beyond_canonical_form_is_refused() -> None:
    project = factories.make_project()
    document = document_of(project, conditions={"slow": {"seed": 2**60}})

    problem = assert_problem(register(project, document), 422, "invalid-document")

    assert problem.errors[0].pointer == "/conditions/slow/seed"


def test_plan_of_another_project_is_refused() -> None:
    other = factories.make_project()

    answer = register(factories.make_project(), document_of(other))

    assert_problem(answer, 403, "forbidden")
    assert Plan.objects.count() == 0


@pytest.mark.parametrize("scope", [Scope.READ, Scope.LANE_WRITE])
def test_registering_takes_its_scope(scope: Scope) -> None:
    project = factories.make_project()

    answer = send("POST", "/plans", document_of(project), secret=secret_of(project, scope))

    assert_problem(answer, 403, "forbidden")
    assert Plan.objects.count() == 0


# Reading


def test_plan_is_read_as_it_was_sent() -> None:
    project = factories.make_project()
    document = document_of(project)
    digest = register(project, document).body["digest"]

    answer = send("GET", f"/plans/{digest}", secret=secret_of(project, Scope.READ))

    assert answer.status == 200
    assert document_digest(answer.body["document"]) == digest
    assert (answer.body["state"], answer.body["generation"]) == ("registered", 1)
    assert [lane["attempt"] for lane in answer.body["lanes"]] == [None, None]


def test_plan_shows_its_newest_attempts() -> None:
    plan = factories.make_plan()
    factories.make_attempt(plan)
    attempt = factories.make_attempt(plan)

    body = send("GET", f"/plans/{plan.digest}", secret=secret_of(plan.project)).body

    assert body["state"] == "running"
    assert body["lanes"][0]["attempt"]["attempt"] == attempt.key
    assert body["lanes"][0]["attempt"]["number"] == 2


def test_lane_token_reads_its_own_slice() -> None:
    plan = factories.make_plan()
    attempt = factories.make_attempt(plan, "ordinary-1")
    secret = factories.make_lane_token(attempt, at=timezone.now())

    answer = send("GET", f"/plans/{plan.digest}", secret=secret)

    sliced = PlanDocument.model_validate_json(json.dumps(answer.body["document"]))
    assert [lane.name for lane in sliced.lanes] == ["ordinary-1"]
    assert [scenario.id for scenario in sliced.scenarios] == ["order-lookup"]
    assert [lane["name"] for lane in answer.body["lanes"]] == ["ordinary-1"]
    assert sliced.policy_digest == queries.plan_document(plan).policy_digest


def test_lane_token_reads_no_other_plan() -> None:
    plan = factories.make_plan()
    other = factories.make_plan(plan.project)
    secret = factories.make_lane_token(factories.make_attempt(plan), at=timezone.now())

    answer = send("GET", f"/plans/{other.digest}", secret=secret)

    assert_problem(answer, 403, "forbidden")


def test_plan_of_a_workflow_run_is_found_again() -> None:
    project = factories.make_project()
    plan = factories.make_plan(project, source={"workflow_run_id": 37110051697})
    factories.make_plan(project)
    factories.make_plan(source={"workflow_run_id": 37110051697})

    answer = send(
        "GET",
        "/plans?workflow_run_id=37110051697&suite=support",
        secret=secret_of(project, Scope.PLAN_REGISTER),
    )

    assert [row["digest"] for row in answer.body["plans"]] == [plan.digest]
    other = send(
        "GET", "/plans?workflow_run_id=37110051697&suite=billing", secret=secret_of(project)
    )
    assert other.body["plans"] == []


def test_plans_are_listed_by_page() -> None:
    project = factories.make_project()
    plans = [factories.make_plan(project) for _ in range(3)]
    secret = secret_of(project)

    first = send("GET", "/plans?limit=2", secret=secret).body["plans"]
    second = send("GET", f"/plans?limit=2&before={first[-1]['digest']}", secret=secret)

    assert [row["digest"] for row in first] == [plans[2].digest, plans[1].digest]
    assert [row["digest"] for row in second.body["plans"]] == [plans[0].digest]


@pytest.mark.parametrize(
    "query", ["workflow_run_id=abc", "workflow_run_id=-1", "limit=101", "limit=0", "colour=red"]
)
def test_bad_parameters_are_named(query: str) -> None:
    answer = send("GET", f"/plans?{query}", secret=secret_of(factories.make_project()))

    problem = assert_problem(answer, 400, "bad-parameter")
    assert repr(query.partition("=")[0]) in problem.detail


def test_project_of_a_list_must_be_the_tokens() -> None:
    mine, other = factories.make_project(), factories.make_project()
    secret = secret_of(mine)

    assert send("GET", f"/plans?project={mine.name}", secret=secret).status == 200
    assert_problem(send("GET", f"/plans?project={other.name}", secret=secret), 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/plans/{UNKNOWN}"),
        ("POST", f"/plans/{UNKNOWN}/close"),
        ("POST", f"/plans/{UNKNOWN}/lanes/ordinary-1/attempts"),
        ("POST", "/attempts/%00/token"),
        ("GET", f"/plans?before={UNKNOWN}"),
        ("GET", "/plans?before=%00"),
        ("GET", "/plans/sha256:abc"),
    ],
)
def test_unknown_plan_is_not_found(method: str, path: str) -> None:
    answer = send(method, path, secret=secret_of(factories.make_project()))

    assert_problem(answer, 404, "not-found")


@pytest.mark.parametrize(
    ("method", "suffix"),
    [("GET", ""), ("POST", "/close"), ("POST", "/lanes/ordinary-1/attempts")],
)
def test_plan_of_another_project_stays_closed(method: str, suffix: str) -> None:
    plan = factories.make_plan()

    answer = send(
        method, f"/plans/{plan.digest}{suffix}", secret=secret_of(factories.make_project())
    )

    assert_problem(answer, 403, "forbidden")
    plan.refresh_from_db()
    assert (plan.state, plan.closed_at) == ("REGISTERED", None)


def test_names_with_nul_are_of_nothing() -> None:
    plan = factories.make_plan()
    secret = secret_of(plan.project)

    suite = send("GET", f"/projects/{plan.project.name}/suite?name=%00", secret=secret)
    lane = send("POST", f"/plans/{plan.digest}/lanes/%00/attempts", secret=secret)
    plans = send("GET", "/plans?suite=%00", secret=secret)

    assert_problem(suite, 404, "not-found")
    assert_problem(lane, 404, "not-found")
    assert_problem(plans, 404, "not-found")


# Close


def test_close_asks_for_a_decision() -> None:
    plan = factories.make_plan()

    answer = send(
        "POST", f"/plans/{plan.digest}/close", secret=secret_of(plan.project, Scope.PLAN_REGISTER)
    )

    assert answer.status == 200
    assert answer.body["closed_at"] is not None
    assert AuditEntry.objects.get(action="plan.close").actor.startswith("token:")


def test_close_takes_no_content() -> None:
    plan = factories.make_plan()
    secret = secret_of(plan.project)

    answer = send("POST", f"/plans/{plan.digest}/close", {"reason": "tired"}, secret=secret)

    problem = assert_problem(answer, 422, "invalid-document")
    assert problem.errors[0].pointer == "/reason"
    plan.refresh_from_db()
    assert plan.closed_at is None
    assert send("POST", f"/plans/{plan.digest}/close", {}, secret=secret).status == 200


@pytest.mark.parametrize("scope", [Scope.READ, Scope.LANE_WRITE])
def test_close_takes_its_scope(scope: Scope) -> None:
    plan = factories.make_plan()

    answer = send("POST", f"/plans/{plan.digest}/close", secret=secret_of(plan.project, scope))

    assert_problem(answer, 403, "forbidden")
