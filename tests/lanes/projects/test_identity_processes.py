"""Several processes at once: an identity is exchanged once, keys are asked for once, a lane has one job."""

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.synchronize import Barrier as BarrierType

import pytest
from django.db import connections
from django.utils import timezone

from lanes.plans.models import Attempt, JobBinding
from lanes.projects.models import IssuerKeys, Project, RequestCount, Token, UsedIdentity
from lanes.projects.operations.rates import count_request
from tests.lanes import factories
from tests.lanes.projects.identities import (
    exchange,
    identity_of,
    issuer,
    make_publisher,
    project,
    run_token,
)
from tests.lanes.wire import send
from tests.programs.issuer import Issuer, job_claims

__all__ = ["issuer", "project"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

_FORK = multiprocessing.get_context("fork")
_AT_ONCE = 4


def at_once(work: Callable[[int], int]) -> list[int]:
    """Do work in several processes at the same moment; return what each said, as its exit code."""
    connections.close_all()
    barrier: BarrierType = _FORK.Barrier(_AT_ONCE)

    def run(number: int) -> None:
        barrier.wait(60)
        raise SystemExit(work(number))

    processes = [_FORK.Process(target=run, args=(number,)) for number in range(_AT_ONCE)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return sorted(process.exitcode or 0 for process in processes)


def test_of_several_who_bring_one_identity_one_comes_through(
    issuer: Issuer, project: Project
) -> None:
    make_publisher(project)
    run_token(issuer)
    identity = identity_of(issuer)

    statuses = at_once(lambda _: exchange(identity).status // 100)

    assert statuses == [2, 4, 4, 4]
    assert UsedIdentity.objects.count() == 2
    assert Token.objects.filter(source__isnull=False).count() == 2


def test_several_who_need_keys_ask_once(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    identities = [identity_of(issuer) for _ in range(_AT_ONCE)]

    statuses = at_once(lambda number: exchange(identities[number]).status // 100)

    # The others either waited for the row, or are told to come back in two seconds.
    assert set(statuses) <= {2, 5}
    assert 2 in statuses
    assert issuer.questions == 1
    assert IssuerKeys.objects.count() == 1
    assert exchange(identity_of(issuer)).status == 200


def test_requests_of_several_are_counted_together() -> None:
    now = timezone.now()

    def ask(number: int) -> int:
        for _ in range(10):
            count_request("ada", most=1000, at=now - timedelta(milliseconds=number))
        return 0

    assert at_once(ask) == [0] * _AT_ONCE
    assert RequestCount.objects.get().count == 10 * _AT_ONCE


@pytest.mark.parametrize("who", ["jobs of one lane", "lanes of one job"])
def test_of_several_that_bind_at_once_one_comes_through(
    issuer: Issuer, project: Project, who: str
) -> None:
    make_publisher(project)
    policy = factories.make_policy(project, at=timezone.now())
    scenarios = [(f"s-{n}", f"category-{n}") for n in range(_AT_ONCE)]
    document = factories.plan_document(
        project,
        policy_digest=policy.digest,
        scenarios=scenarios,
        at=timezone.now(),
        source={
            "ref": "refs/pull/7/merge",
            "pull_request": 7,
            "workflow_run_id": 1296269001,
        },
    )
    answer = send("POST", "/plans", document, secret=run_token(issuer))
    assert answer.status == 201, answer.body
    is_one_job = who == "lanes of one job"
    secrets = [
        run_token(issuer, job_claims(check_run_id="11" if is_one_job else str(11 + number)))
        for number in range(_AT_ONCE)
    ]

    def open_one(number: int) -> int:
        lane = f"ordinary-{number + 1 if is_one_job else 1}"
        path = f"/plans/{answer.body['digest']}/lanes/{lane}/attempts"
        return send("POST", path, secret=secrets[number]).status // 100

    assert at_once(open_one) == [2, 4, 4, 4]
    assert JobBinding.objects.count() == Attempt.objects.count() == 1
