"""The conclusion over HTTP: decided, undecided, waited for."""

import time
from threading import Timer
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from gates.decisions.operations.conclusion import conclude
from lanes.plans.models import Plan
from lanes.plans.operations.lifecycle import bump_inputs
from lanes.projects.models import Scope
from tests.gates.factories import (
    SCENARIOS,
    concluded,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import NOW, make_project, make_token

pytestmark = pytest.mark.slow

FEW = SCENARIOS[:2]


def get(client: Client, plan: Plan, *scopes: Scope, wait: str | None = None) -> Any:
    secret = make_token(plan.project, *scopes).secret
    query = {} if wait is None else {"wait": wait}
    return client.get(
        reverse("api-conclusion", args=[plan.digest]),
        query,
        headers={"Authorization": f"Bearer {secret}"},
    )


@pytest.mark.django_db
def test_conclusion_is_answered_as_it_is_stored(client: Client) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)
    run_lanes(plan, steady("candidate"))
    conclusion = concluded(plan)

    answer = get(client, plan, Scope.READ)

    assert answer.status_code == 200
    assert answer.json() == conclusion.content
    assert answer.json()["conclusion"] == "action_required"


@pytest.mark.django_db
def test_undecided_plan_is_answered_with_its_state(client: Client) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)

    answer = get(client, plan, Scope.READ)

    assert answer.status_code == 202
    assert answer.json() == {
        "plan": plan.digest,
        "state": "registered",
        "generation": 1,
        "conclusion": None,
        "previous": None,
    }


@pytest.mark.django_db
def test_plan_whose_inputs_moved_is_undecided_again(client: Client) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)
    concluded(plan)
    bump_inputs(plan, at=NOW)

    answer = get(client, plan, Scope.READ)

    assert answer.status_code == 202
    assert (answer.json()["conclusion"], answer.json()["previous"]) == (None, "failure")


@pytest.mark.django_db
@pytest.mark.parametrize("wait", ["61", "-1", "soon", "1.5", "٣"])
def test_wait_that_cannot_be_is_refused(client: Client, wait: str) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)

    answer = get(client, plan, Scope.READ, wait=wait)

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-wait"
    assert "from 0 to 60" in answer.json()["detail"]


@pytest.mark.django_db
def test_conclusion_is_closed_to_tokens_of_other_projects(client: Client) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)
    stranger = make_token(make_project(), Scope.READ).secret

    answer = client.get(
        reverse("api-conclusion", args=[plan.digest]),
        headers={"Authorization": f"Bearer {stranger}"},
    )

    assert answer.status_code == 403


@pytest.mark.django_db(transaction=True)
def test_wait_answers_as_soon_as_there_is_a_conclusion(client: Client) -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)
    run_lanes(plan, steady("candidate"))
    bump_inputs(plan, at=NOW)

    def decide() -> None:
        try:
            conclude(plan, at=NOW)
        finally:
            connection.close()

    timer = Timer(0.3, decide)
    timer.start()
    began = time.monotonic()

    answer = get(client, plan, Scope.READ, wait="60")

    timer.join()
    assert answer.status_code == 200
    assert time.monotonic() - began < 50
