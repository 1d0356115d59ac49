"""Adopting baselines: by name, by policy, and what is not eligible."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gates.verdicts.models import Baseline, BaselineKind
from gates.verdicts.operations.baselines import (
    BY_POLICY,
    BaselineNotEligibleError,
    adopt_baseline,
)
from gates.verdicts.queries.baselines import current_baseline
from lanes.plans.models import Plan
from lanes.projects.models import AuditEntry, Project, Scope
from tests.gates.factories import (
    SCENARIOS,
    Teller,
    Told,
    concluded,
    lane_names,
    make_baseline,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import BASE_SHA, NOW, make_project, make_token

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FEW = [s for s in SCENARIOS if s[0].endswith(("0", "1"))]


def make_concluded_plan(project: Project, tell: Teller | None = None, **fields: Any) -> Plan:
    plan = make_scored_plan(project, **{"scenarios": FEW, "sha": BASE_SHA, **fields})
    run_lanes(plan, tell or steady("baseline"))
    concluded(plan)
    plan.refresh_from_db()
    return plan


def adopt(project: Project, plan: Plan) -> Baseline:
    return adopt_baseline(
        project, plan, kind=BaselineKind.ROLLING, reason="first", actor="user:ada", at=NOW
    )


def test_adopt_baseline_names_who_and_why_and_is_audited() -> None:
    project = make_gated_project()
    plan = make_concluded_plan(project)

    baseline = adopt(project, plan)

    assert current_baseline(project, "support", BaselineKind.ROLLING) == plan
    assert current_baseline(project, "support", BaselineKind.RELEASE) is None
    assert (baseline.adopted_by, baseline.reason) == ("user:ada", "first")
    entry = AuditEntry.objects.get(project=project, action="baseline.adopt")
    assert (entry.actor, entry.subject, entry.before) == ("user:ada", plan.digest, None)


def test_adopt_baseline_twice_keeps_one_row() -> None:
    project = make_gated_project()
    plan = make_concluded_plan(project)

    assert adopt(project, plan) == adopt(project, plan)
    assert AuditEntry.objects.filter(action="baseline.adopt").count() == 1


def test_adopt_baseline_refuses_a_plan_that_is_not_concluded() -> None:
    project = make_gated_project()
    plan = make_scored_plan(project, scenarios=FEW)

    with pytest.raises(BaselineNotEligibleError, match="only a concluded plan"):
        adopt(project, plan)


def test_adopt_baseline_refuses_incomplete_evidence() -> None:
    project = make_gated_project()
    plan = make_scored_plan(project, scenarios=FEW)
    run_lanes(plan, steady("baseline"), lanes=lane_names(plan)[:2])
    concluded(plan)
    plan.refresh_from_db()

    with pytest.raises(BaselineNotEligibleError, match="missing, unmeasured_lane"):
        adopt(project, plan)


def test_adopt_baseline_refuses_a_regression() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    worse = make_concluded_plan(project, steady("worse", drop=4), sha="1" * 40)

    with pytest.raises(BaselineNotEligibleError, match="a regression of correctness"):
        adopt(project, worse)


def test_adopt_baseline_refuses_the_plan_of_another_project() -> None:
    plan = make_concluded_plan(make_gated_project())

    with pytest.raises(BaselineNotEligibleError, match="another project"):
        adopt(make_project(), plan)


def test_adopt_baseline_takes_a_suite_that_changed() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    smaller = make_concluded_plan(project, sha="1" * 40, scenarios=FEW[:-1])

    adopt(project, smaller)

    assert current_baseline(project, "support", BaselineKind.ROLLING) == smaller


def make_nightly(project: Project, tell: Teller | None = None, **fields: Any) -> Plan:
    """Run a plan that the default branch's own CI registered."""

    def on_main(document: Any) -> None:
        document["source"]["ref"] = "refs/heads/main"

    plan = make_scored_plan(
        project, **{"scenarios": FEW, "event": "schedule", "edit": on_main, **fields}
    )
    # Only a CI identity makes a plan verified; until there are any, nothing else can.
    Plan.objects.filter(pk=plan.pk).update(is_verified=True)
    run_lanes(plan, tell or steady("nightly"))
    concluded(plan)
    return plan


def test_first_baseline_comes_by_itself_only_where_the_policy_says_so() -> None:
    careful = make_gated_project()
    trusting = make_gated_project(baseline={"auto_adopt": True})

    make_nightly(careful)
    nightly = make_nightly(trusting)

    assert current_baseline(careful, "support", BaselineKind.ROLLING) is None
    assert current_baseline(trusting, "support", BaselineKind.ROLLING) == nightly
    assert Baseline.objects.get().adopted_by == BY_POLICY


def test_rolling_baseline_follows_good_nights_only() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)

    good = make_nightly(project, sha="1" * 40)
    make_nightly(project, steady("bad", drop=4), sha="2" * 40)

    assert current_baseline(project, "support", BaselineKind.ROLLING) == good


def test_unverified_plan_of_the_default_branch_never_becomes_a_baseline() -> None:
    project = make_gated_project(baseline={"auto_adopt": True})

    make_concluded_plan(project, event="schedule")

    assert Baseline.objects.count() == 0


def test_adoption_over_http_and_the_list(client: Client) -> None:
    project = make_gated_project()
    plan = make_concluded_plan(project)
    url = reverse("api-baselines", args=[project.name])
    maintainer = {"Authorization": f"Bearer {make_token(project).secret}"}
    reader = {"Authorization": f"Bearer {make_token(project, Scope.READ).secret}"}
    body = {"plan": plan.digest, "kind": "rolling", "reason": "the first night"}

    forbidden = client.post(url, body, "application/json", headers=reader)
    created = client.post(url, body, "application/json", headers=maintainer)
    listed = client.get(url, headers=reader)

    assert forbidden.status_code == 403
    assert created.status_code == 201
    assert listed.json() == {"baselines": [created.json()]}
    assert created.json()["plan"] == plan.digest
    assert created.json()["kind"] == "rolling"


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"kind": "rolling", "reason": "because"}, 422, "/plan"),
        ({"plan": "sha256:" + "0" * 64, "kind": "rolling", "reason": "because"}, 404, "no plan"),
        ({"plan": "sha256:" + "0" * 64, "kind": "best", "reason": "because"}, 422, "/kind"),
    ],
)
def test_adoption_over_http_says_what_is_wrong(
    client: Client, body: Any, status: int, word: str
) -> None:
    project = make_gated_project()
    headers = {"Authorization": f"Bearer {make_token(project).secret}"}

    answer = client.post(
        reverse("api-baselines", args=[project.name]), body, "application/json", headers=headers
    )

    assert answer.status_code == status
    assert word in answer.json()["detail"]
    assert Baseline.objects.count() == 0


def test_adoption_of_a_crashing_night_is_refused_when_nothing_was_measured() -> None:
    project = make_gated_project()

    def broken(key: object) -> Told:
        return Told(judged={}, latency_s=None, outcome="setup_error")

    plan = make_concluded_plan(project, broken)

    with pytest.raises(BaselineNotEligibleError, match="unmeasured"):
        adopt(project, plan)
