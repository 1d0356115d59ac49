"""Lanes that shared what they should not have, or did not prove otherwise."""

import json

import pytest

from tests.evidence.factories import seal_attempt, send_members
from tests.gates.factories import (
    codes,
    concluded,
    deliver,
    lane_names,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    steady,
)
from tests.gates.verdicts.test_isolation import make_environment
from tests.lanes.factories import make_attempt

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_isolation_that_nobody_proved_is_no_success() -> None:
    claims = dict.fromkeys(
        ["machine", "mcp_session", "credential", "pool", "seed", "canary"], "not_claimed"
    )
    project = make_gated_project(isolation={**claims, "world": "exclusive"})
    make_baseline(project)

    conclusion = make_conclusion(project, steady("candidate"))

    assert conclusion.conclusion == "action_required"
    assert codes(conclusion)["isolation_unproven"]["class"] == "isolation"
    assert {r["resource"]: r["state"] for r in conclusion.content["isolation"]}["world"] == (
        "unproven"
    )


@pytest.mark.parametrize(
    ("world", "code", "expected"),
    [("own", None, "success"), ("shared", "isolation_violated", "failure")],
)
def test_lanes_that_share_a_world_fail(world: str, code: str | None, expected: str) -> None:
    claims = dict.fromkeys(
        ["machine", "mcp_session", "credential", "pool", "seed", "canary"], "not_claimed"
    )
    project = make_gated_project(isolation={**claims, "world": "exclusive"})
    make_baseline(project)
    plan = make_scored_plan(project)
    for name in lane_names(plan):
        attempt = make_attempt(plan, name)
        deliver(attempt, steady("candidate"))
        environment = make_environment("one" if world == "shared" else name)
        send_members(attempt, {"lane/environment.json": json.dumps(environment).encode()})
        seal_attempt(attempt)

    conclusion = concluded(plan)

    assert conclusion.conclusion == expected
    assert list(codes(conclusion)) == ([] if code is None else [code])
    if code is not None:
        assert (
            "world: ordinary-1 and ordinary-2 share a world" in codes(conclusion)[code]["subjects"]
        )
