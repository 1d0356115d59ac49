"""Plans and lanes by CI jobs: where a plan comes from is derived, and each job has a lane of its own."""

import json
from typing import Any

import pytest
from django.utils import timezone

from evalhub.columns import column_values
from lanes.plans import queries
from lanes.plans.models import Attempt, JobBinding, Plan
from lanes.plans.operations import retained
from lanes.projects.models import Project, Scope, SpeakerRefusal, Token
from tests.lanes import factories
from tests.lanes.projects.identities import issuer, make_publisher, project, run_token
from tests.lanes.wire import Answer, assert_problem, send
from tests.programs.issuer import Issuer, job_claims, on_main

__all__ = ["issuer", "project"]

pytestmark = pytest.mark.django_db

RUN, SHA = 1296269001, "b" * 40
PULL_REQUEST = {
    "repository_id": 74,
    "event": "pull_request",
    "ref": "refs/pull/7/merge",
    "pull_request": 7,
    "tested_sha": SHA,
    "workflow_run_id": RUN,
}
ON_MAIN = {
    **PULL_REQUEST,
    "event": "push",
    "ref": "refs/heads/main",
    "pull_request": None,
    "head_sha": SHA,
}
PUSH, NIGHTLY = on_main(), on_main(event_name="schedule")


@pytest.fixture(autouse=True)
def policy(project: Project) -> None:
    make_publisher(project)
    factories.make_policy(project, at=timezone.now())


def document(project: Project, source: dict[str, Any] | None = None, **fields: Any) -> Any:
    current = queries.current_policy(project)
    assert current is not None
    return factories.plan_document(
        project,
        policy_digest=current.digest,
        source={**PULL_REQUEST, **(source or {})},
        at=timezone.now(),
        **fields,
    )


def register(secret: str, plan: Any) -> Answer:
    return send("POST", "/plans", plan, secret=secret)


def registered(issuer: Issuer, project: Project, claims: Any = None, source: Any = None) -> Plan:
    answer = register(run_token(issuer, claims), document(project, source))
    assert answer.status == 201, answer.body
    return Plan.objects.get(digest=answer.body["digest"])


def open_lane(secret: str, plan: Plan, lane: str = "ordinary-1") -> Answer:
    return send("POST", f"/plans/{plan.digest}/lanes/{lane}/attempts", secret=secret)


def job_of(token: Token) -> int:
    assert token.source is not None
    return int(token.source["job"])


def job(number: int, **claims: Any) -> Any:
    return job_claims(check_run_id=str(number), **claims)


# Where a plan comes from


def test_source_of_a_plan_is_what_the_claims_say(issuer: Issuer, project: Project) -> None:
    answer = register(run_token(issuer), document(project))

    assert (answer.status, answer.body["verified"]) == (201, True)
    plan = Plan.objects.get()
    assert plan.is_verified
    source = plan.verified_source
    assert source is not None
    assert (source["sha"], source["ref"], source["job"]) == (SHA, "refs/pull/7/merge", 100084904124)
    reader = factories.make_token(project, Scope.READ).secret
    told = send("GET", f"/plans/{plan.digest}", secret=reader).body
    assert (told["verified"], told["verified_source"]) == (True, source)


def test_objects_tell_the_verified_source(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)

    told = json.loads(json.dumps(retained.plan_columns(plan)))

    columns = column_values(Plan, told)
    assert columns["is_verified"]
    assert columns["verified_source"] == plan.verified_source


@pytest.mark.parametrize(
    ("claims", "event"),
    [(PUSH, "push"), (NIGHTLY, "schedule"), (on_main(event_name="workflow_dispatch"), "manual")],
)
def test_plans_of_the_default_branch_are_verified(
    issuer: Issuer, project: Project, claims: Any, event: str
) -> None:
    plan = registered(issuer, project, claims, {**ON_MAIN, "event": event})

    assert plan.is_verified


def test_plan_by_a_static_token_is_not_verified(project: Project) -> None:
    secret = factories.make_token(project, Scope.PLAN_REGISTER).secret

    answer = register(secret, document(project))

    assert (answer.status, answer.body["verified"]) == (201, False)
    assert Plan.objects.get().verified_source is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repository_id", 75),
        ("repository_id", None),
        ("event", "schedule"),
        ("event", "import"),
        ("ref", "refs/heads/main"),
        ("ref", None),
        ("pull_request", 8),
        ("pull_request", None),
        ("tested_sha", "c" * 40),
        ("tested_sha", None),
        ("workflow_run_id", RUN + 1),
        ("workflow_run_id", None),
    ],
)
def test_source_that_disagrees_is_refused_and_recorded(
    issuer: Issuer, project: Project, field: str, value: Any
) -> None:
    answer = register(run_token(issuer), document(project, {field: value}))

    problem = assert_problem(answer, 422, "plan-refused")
    faults = {fault.pointer: fault for fault in problem.errors if fault.code == "source_disagrees"}
    assert list(faults) == [f"/source/{field}"]
    assert Plan.objects.count() == 0
    assert SpeakerRefusal.objects.get().claims["check_run_id"] == "100084904124"


def test_each_fault_of_a_source_is_told_beside_the_others(issuer: Issuer, project: Project) -> None:
    wrong = document(project, {"ref": "refs/heads/main", "tested_sha": "c" * 40}, guards=[])

    problem = assert_problem(register(run_token(issuer), wrong), 422, "plan-refused")

    codes = [fault.code for fault in problem.errors]
    assert codes.count("source_disagrees") == 2
    assert len(set(codes)) > 1


def test_attack_green_on_another_commit(issuer: Issuer, project: Project) -> None:
    """What ran on one commit of the branch is to be shown on another."""
    answer = register(run_token(issuer, PUSH), document(project, {**ON_MAIN, "head_sha": "d" * 40}))

    problem = assert_problem(answer, 422, "plan-refused")
    assert [fault.pointer for fault in problem.errors] == ["/source/head_sha"]


def test_attack_schedule_on_main_from_a_pull_request(issuer: Issuer, project: Project) -> None:
    """A pull request's job claims to be the nightly, which would move the baseline."""
    nightly = {**ON_MAIN, "event": "schedule"}

    problem = assert_problem(
        register(run_token(issuer), document(project, nightly)), 422, "plan-refused"
    )

    assert {fault.pointer for fault in problem.errors} == {
        "/source/event",
        "/source/ref",
        "/source/pull_request",
    }


def test_attack_plan_of_another_job_is_taken_for_ones_own(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    other = run_token(issuer, job_claims(run_id="1", check_run_id="2"))

    answer = register(other, json.loads(plan.document))

    assert_problem(answer, 422, "plan-refused")


def test_static_token_makes_no_plan_verified_by_registering_first(
    issuer: Issuer, project: Project
) -> None:
    """Evidence may have come from anybody: what was unverified stays so."""
    plan = document(project)
    assert register(factories.make_token(project).secret, plan).status == 201

    answer = register(run_token(issuer), plan)

    assert (answer.status, answer.body["verified"]) == (200, False)


def test_run_token_registers_for_its_own_project_alone(issuer: Issuer, project: Project) -> None:
    other = factories.make_project()

    answer = register(run_token(issuer), {**document(project), "project": other.name})

    assert_problem(answer, 403, "forbidden")


# Which job speaks for which lane


def test_lane_is_opened_with_a_token_of_its_job(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)

    answer = open_lane(run_token(issuer, job(11)), plan)

    assert answer.status == 201
    binding = JobBinding.objects.get()
    assert (binding.lane.name, binding.job, binding.run_attempt) == ("ordinary-1", 11, 1)
    token = Token.objects.get(attempt=answer.body["attempt"])
    assert job_of(token) == 11
    assert token.publisher is not None
    heartbeat = {"phase": "x", "done": 0, "total": 1}
    path = f"/attempts/{answer.body['attempt']}/heartbeat"
    assert send("POST", path, heartbeat, secret=answer.body["lane_token"]).status == 200


def test_each_lane_has_a_job_of_its_own(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)

    assert open_lane(run_token(issuer, job(11)), plan, "ordinary-1").status == 201
    assert open_lane(run_token(issuer, job(12)), plan, "ordinary-2").status == 201
    # The same job again: its first process died.
    assert open_lane(run_token(issuer, job(11)), plan, "ordinary-1").status == 201
    assert Attempt.objects.count() == 3


def test_job_speaks_for_one_lane(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    assert open_lane(run_token(issuer, job(11)), plan, "ordinary-1").status == 201

    answer = open_lane(run_token(issuer, job(11)), plan, "ordinary-2")

    problem = assert_problem(answer, 403, "job-bound")
    assert "Job 11 speaks for lane ordinary-1" in problem.detail
    assert Attempt.objects.count() == 1
    assert SpeakerRefusal.objects.get().code == "job-bound"


def test_lane_is_spoken_for_by_one_job(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    assert open_lane(run_token(issuer, job(11)), plan).status == 201

    answer = open_lane(run_token(issuer, job(12)), plan)

    problem = assert_problem(answer, 403, "lane-bound")
    assert "spoken for by job 11" in problem.detail
    assert Attempt.objects.count() == 1
    assert SpeakerRefusal.objects.get().code == "lane-bound"


def test_another_run_attempt_binds_anew(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    assert open_lane(run_token(issuer, job(11)), plan).status == 201

    assert open_lane(run_token(issuer, job(21, run_attempt="2")), plan).status == 201

    assert list(JobBinding.objects.order_by("pk").values_list("run_attempt", "job")) == [
        (1, 11),
        (2, 21),
    ]


def test_lane_that_could_not_be_opened_binds_nobody(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    Plan.objects.update(cancelled_at=factories.NOW)

    assert open_lane(run_token(issuer, job(11)), plan).status == 409
    assert JobBinding.objects.count() == 0
    assert_problem(open_lane(run_token(issuer, job(11)), plan, "no-lane"), 404, "not-found")


@pytest.mark.parametrize(
    "claims",
    [
        job(11, run_id="7"),
        job(11, sha="d" * 40),
        job(11, ref="refs/pull/8/merge"),
        on_main(check_run_id="11"),
    ],
)
def test_lane_of_another_run_is_not_opened(issuer: Issuer, project: Project, claims: Any) -> None:
    plan = registered(issuer, project)

    answer = open_lane(run_token(issuer, claims), plan)

    problem = assert_problem(answer, 403, "not-own-plan")
    assert "/source/" in problem.detail
    assert JobBinding.objects.count() == Attempt.objects.count() == 0
    assert SpeakerRefusal.objects.get().code == "not-own-plan"


def test_job_opens_a_lane_of_an_unverified_plan_of_its_run(
    issuer: Issuer, project: Project
) -> None:
    answer = register(factories.make_token(project).secret, document(project))
    plan = Plan.objects.get(digest=answer.body["digest"])

    assert open_lane(run_token(issuer, job(11)), plan).status == 201


# Late uploads, and what belongs to others


def renew(secret: str, attempt: str) -> Answer:
    return send("POST", f"/attempts/{attempt}/token", secret=secret)


def test_fresh_run_token_serves_late_uploads(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    attempt = open_lane(run_token(issuer, job(11)), plan).body["attempt"]
    Token.objects.filter(attempt=attempt).update(expires_at=factories.NOW)

    answer = renew(run_token(issuer, job(11)), attempt)

    assert answer.status == 201
    renewed = Token.objects.filter(attempt=attempt).latest("pk")
    assert job_of(renewed) == 11
    # The lane token that it gave renews itself, and is still of this job.
    assert renew(answer.body["lane_token"], attempt).status == 201
    assert job_of(Token.objects.filter(attempt=attempt).latest("pk")) == 11


def test_job_of_the_next_run_attempt_sends_what_was_left(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    attempt = open_lane(run_token(issuer, job(11)), plan).body["attempt"]

    assert renew(run_token(issuer, job(21, run_attempt="2")), attempt).status == 201


def test_other_jobs_get_no_token_of_the_attempt(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)
    attempt = open_lane(run_token(issuer, job(11)), plan).body["attempt"]
    assert open_lane(run_token(issuer, job(12)), plan, "ordinary-2").status == 201

    assert_problem(renew(run_token(issuer, job(12)), attempt), 403, "job-bound")
    assert_problem(renew(run_token(issuer, job(13)), attempt), 403, "lane-bound")
    assert_problem(renew(run_token(issuer, job(13, run_id="7")), attempt), 403, "not-own-plan")
    assert Token.objects.filter(attempt=attempt).count() == 1
    codes = SpeakerRefusal.objects.order_by("pk").values_list("code", flat=True)
    assert list(codes) == ["job-bound", "lane-bound", "not-own-plan"]


def test_lane_token_is_refused_elsewhere_and_that_is_recorded(
    issuer: Issuer, project: Project
) -> None:
    plan = registered(issuer, project)
    first = open_lane(run_token(issuer, job(11)), plan, "ordinary-1").body
    second = open_lane(run_token(issuer, job(12)), plan, "ordinary-2").body
    other = registered(
        issuer, project, job_claims(run_id="5", check_run_id="50"), {"workflow_run_id": 5}
    )
    stolen = first["lane_token"]

    for method, path in [
        ("POST", f"/attempts/{second['attempt']}/heartbeat"),
        ("PUT", f"/attempts/{second['attempt']}/segments/1"),
        ("POST", f"/attempts/{second['attempt']}/seal"),
        ("POST", f"/attempts/{second['attempt']}/token"),
        ("GET", f"/plans/{other.digest}"),
        ("POST", f"/plans/{other.digest}/lanes/ordinary-1/attempts"),
        ("POST", f"/plans/{plan.digest}/lanes/ordinary-2/attempts"),
        ("POST", "/plans"),
    ]:
        assert_problem(send(method, path, {}, secret=stolen), 403, "forbidden")

    assert SpeakerRefusal.objects.count() == 8
    assert set(SpeakerRefusal.objects.values_list("project", "is_signed")) == {(project.pk, True)}
    told = json.dumps(list(SpeakerRefusal.objects.values("claims", "detail")))
    assert first["attempt"] in told
    assert stolen not in told


@pytest.mark.parametrize("act", ["close", "reopen", "cancel"])
def test_job_ends_no_plan_of_another_run(issuer: Issuer, project: Project, act: str) -> None:
    plan = registered(issuer, project)
    body = {"reason": "not mine"} if act == "cancel" else None

    other = run_token(issuer, job(11, run_id="7"))
    answer = send("POST", f"/plans/{plan.digest}/{act}", body, secret=other)

    assert_problem(answer, 403, "not-own-plan")
    plan.refresh_from_db()
    assert (plan.closed_at, plan.cancelled_at) == (None, None)


def test_job_closes_the_plan_of_its_own_run(issuer: Issuer, project: Project) -> None:
    plan = registered(issuer, project)

    answer = send("POST", f"/plans/{plan.digest}/close", secret=run_token(issuer, job(30)))

    assert answer.status == 200, answer.body
    waited = send("GET", f"/plans/{plan.digest}/conclusion", secret=run_token(issuer, job(30)))
    assert waited.status in {200, 202}
