"""The pages of all plans and of one plan: who may see them, and what they say first."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from evidence.store.models import Run
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from lanes.projects.models import Role
from tests.evidence.factories import judge_line, make_refusal
from tests.evidence.reader.factories import make_run
from tests.gates.factories import (
    concluded,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def plan_address(plan: Plan) -> str:
    return reverse("plan", args=[plan.digest])


def as_member(client: Client, plan: Plan, role: Role = Role.VIEWER) -> None:
    client.force_login(make_user(project=plan.project, role=role))


def text(client: Client, address: str, *, status: int = 200, **headers: str) -> str:
    response = client.get(address, headers=headers)
    assert response.status_code == status
    return str(response.content.decode())


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MAINTAINER])
def test_member_sees_plan_and_list(client: Client, role: Role) -> None:
    plan = make_plan()
    as_member(client, plan, role)

    assert plan.suite_name in text(client, plan_address(plan))
    assert plan_address(plan) in text(client, reverse("plans"))


def test_member_of_another_project_finds_nothing(client: Client) -> None:
    run = make_run()
    client.force_login(make_user(project=make_project(), role=Role.MAINTAINER))

    text(client, plan_address(run.plan), status=404)
    text(client, reverse("run-baseline", args=[run.pk]), status=404)
    text(client, f"{reverse('plans')}?before={run.plan.digest}", status=404)
    assert run.plan.digest not in text(client, reverse("plans"))


def test_nobody_is_asked_to_sign_in(client: Client) -> None:
    run = make_run()

    for address in (
        plan_address(run.plan),
        reverse("plans"),
        reverse("run-baseline", args=[run.pk]),
    ):
        response = client.get(address)
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("sign-in"))


def test_home_leads_to_the_plans(client: Client) -> None:
    assert client.get("/")["Location"] == reverse("plans")


def test_open_plan_says_how_far_it_is_and_polls(client: Client) -> None:
    plan = make_plan()
    make_run(plan=plan)
    as_member(client, plan)

    html = text(client, plan_address(plan))

    assert "1 of 3 runs are here, 0 of 2 required lanes are sealed." in html
    assert 'hx-trigger="every 5s"' in html


def test_plan_without_a_judge_call_shows_no_sum_of_money(client: Client) -> None:
    plan = make_plan()
    as_member(client, plan)

    def total() -> str:
        return text(client, plan_address(plan)).partition("<tfoot>")[2].partition("</tfoot>")[0]

    assert '<td class="number">–</td>' in total()
    make_run(plan=plan, judged=[judge_line(cost_microusd=0)])
    assert '<td class="number">$0.00</td>' in total()


def test_htmx_gets_the_progress_alone(client: Client) -> None:
    plan = make_plan()
    as_member(client, plan)

    response = client.get(plan_address(plan), headers={"HX-Request": "true"})

    assert response["Vary"].find("HX-Request") >= 0
    assert response.content.lstrip().startswith(b'<section class="card" id="progress"')
    assert b"<html" not in response.content
    assert "HX-Refresh" not in response


def test_htmx_of_a_session_that_ended_leads_to_signing_in(client: Client) -> None:
    plan = make_plan()

    response = client.get(plan_address(plan), headers={"HX-Request": "true"})

    assert response.status_code == 204
    assert response["HX-Redirect"].startswith(f"{reverse('sign-in')}?next=/plans/")


def test_htmx_gets_an_error_as_a_note(client: Client) -> None:
    plan = make_plan()
    client.force_login(make_user())

    response = client.get(plan_address(plan), headers={"HX-Request": "true"})

    assert response.status_code == 404
    assert response["HX-Retarget"] == "#alert"
    assert response.content.lstrip().startswith(b'<div class="note"')


def test_htmx_is_told_to_load_the_page_once_the_plan_has_concluded(client: Client) -> None:
    plan = make_plan()
    lifecycle.close_plan(plan, at=NOW)
    concluded(plan)
    as_member(client, plan)

    response = client.get(plan_address(plan), headers={"HX-Request": "true"})

    assert response["HX-Refresh"] == "true"
    assert b"hx-trigger" not in response.content


def test_regression_is_told_with_its_numbers_and_the_way_to_the_baseline(client: Client) -> None:
    project = make_gated_project()
    baseline = make_baseline(project)
    conclusion = make_conclusion(project, steady("candidate", drop=2.0))
    as_member(client, conclusion.plan)

    html = text(client, plan_address(conclusion.plan))

    assert conclusion.conclusion == "failure"
    assert conclusion.title in html
    assert "Regression" in html
    assert "Read the failed runs below" in html
    assert plan_address(baseline.plan) in html
    assert 'id="forest"' in html
    assert "plotly.js-style-global" in html
    assert '<svg class="bar"' in html


def test_plan_without_a_baseline_says_what_to_do(client: Client) -> None:
    conclusion = make_conclusion(make_gated_project(), steady("candidate"))
    as_member(client, conclusion.plan)

    html = text(client, plan_address(conclusion.plan))

    assert "Action required" in html
    assert "adopts a sound plan as baseline" in html
    assert "plotly" not in html


def test_missing_run_keys_are_listed_once_the_plan_is_over(client: Client) -> None:
    plan = make_plan()
    make_run("refund-twice", plan=plan)
    as_member(client, plan)

    assert "Missing evidence" not in text(client, plan_address(plan))
    lifecycle.close_plan(plan, at=NOW)
    concluded(plan)
    html = text(client, plan_address(plan))

    assert "Missing evidence" in html
    assert "<code>refund-late/candidate/1</code>" in html
    assert "<code>order-lookup/candidate/1</code>" in html


def test_refused_evidence_leads_to_the_quarantine(client: Client) -> None:
    plan = make_refusal(make_attempt()).plan
    as_member(client, plan)

    html = text(client, plan_address(plan))

    assert f"{reverse('quarantine', args=[plan.digest])}?category=unexpected" in html


def test_run_leads_to_the_baselines_run_of_the_same_key(client: Client) -> None:
    project = make_gated_project()
    baseline = make_baseline(project)
    plan = make_conclusion(project, steady("candidate")).plan
    run = Run.objects.filter(plan=plan, scenario="refunds-03", epoch=2).get()
    as_member(client, plan)

    response = client.get(reverse("run-baseline", args=[run.pk]))

    other = Run.objects.get(plan=baseline.plan, scenario="refunds-03", epoch=2)
    back = reverse("run", args=[run.pk])
    there = text(client, response["Location"])
    assert response["Location"] == f"{reverse('run', args=[other.pk])}?compared={run.pk}"
    assert f'href="{back}">Back to the run' in there
    assert reverse("run-baseline", args=[run.pk]) in text(client, back)
    # Its own comparator is none: it is the baseline.
    assert reverse("run-baseline", args=[other.pk]) not in there


def test_way_back_leads_into_no_other_project(client: Client) -> None:
    run, foreign = make_run(), make_run()
    as_member(client, run.plan)

    html = text(client, f"{reverse('run', args=[run.pk])}?compared={foreign.pk}")

    assert "Back to the run" not in html


def test_run_without_a_baseline_says_so(client: Client) -> None:
    run = make_run()
    as_member(client, run.plan)

    html = text(client, reverse("run-baseline", args=[run.pk]), status=404)

    assert "There is no baseline with a run of" in html
    assert reverse("run-baseline", args=[run.pk]) not in text(client, reverse("run", args=[run.pk]))


def test_list_filters_by_suite_project_and_conclusion(client: Client) -> None:
    project = make_gated_project()
    baseline = make_baseline(project).plan
    passing = make_conclusion(project, steady("candidate"), sha="1" * 40).plan
    running = make_scored_plan(project, sha="2" * 40)
    as_member(client, running)
    address = reverse("plans")

    def listed(query: str) -> set[str]:
        html = text(client, f"{address}?{query}")
        return {plan.digest for plan in (baseline, passing, running) if plan_address(plan) in html}

    assert listed("") == {baseline.digest, passing.digest, running.digest}
    assert listed("conclusion=open") == {running.digest}
    assert listed("conclusion=action_required") == {baseline.digest}
    assert listed("suite=other") == set()
    assert listed("project=someone/else") == set()
    assert listed(f"before={running.digest}") == {baseline.digest, passing.digest}


def test_list_takes_the_same_queries_for_more_plans(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    plan = make_plan()
    as_member(client, plan)

    with django_assert_num_queries(8):
        client.get(reverse("plans"))
    for _ in range(4):
        make_plan(plan.project)
    with django_assert_num_queries(8):
        client.get(reverse("plans"))


def test_plan_page_takes_the_same_queries_for_more_runs(client: Client) -> None:
    small, large = make_plan(epochs=1), make_plan(epochs=3)
    counts = []
    for plan, epochs in ((small, 1), (large, 3)):
        for epoch in range(1, epochs + 1):
            make_run(plan=plan, epoch=epoch)
            make_run("refund-twice", plan=plan, epoch=epoch, outcome="failed")
        as_member(client, plan)
        client.get(plan_address(plan))
        with CaptureQueriesContext(connection) as queries:
            client.get(plan_address(plan))
        counts.append(len(queries))

    assert counts[0] == counts[1]


def test_run_lanes_that_failed_come_with_their_transcripts(client: Client) -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"))
    Run.objects.filter(plan=plan, scenario="orders-01").update(outcome="failed")
    as_member(client, plan)

    html = text(client, plan_address(plan))

    for run in Run.objects.filter(plan=plan, scenario="orders-01"):
        assert f'href="{reverse("run", args=[run.pk])}"' in html
    assert "passed 2 of 2" in html


def test_foreign_plan_says_that_it_has_no_check(client: Client) -> None:
    plan = make_plan()
    Plan.objects.filter(pk=plan.pk).update(is_foreign=True)
    as_member(client, plan)

    page = text(client, plan_address(plan))

    assert "No check: the plan was imported" in page
    assert "No check was asked for yet" not in page


def test_foreign_plan_asks_nobody_to_run_lanes_again(client: Client) -> None:
    plan = make_conclusion(make_gated_project(), steady("candidate")).plan
    as_member(client, plan)
    assert "What to do next" in text(client, plan_address(plan))
    Plan.objects.filter(pk=plan.pk).update(is_foreign=True, closed_at=timezone.now())

    page = text(client, plan_address(plan))

    assert "What to do next" not in page
    assert "Lanes are told to stop" not in page


def test_cancelled_plan_labels_the_verdicts_of_before(client: Client) -> None:
    plan = make_conclusion(make_gated_project(), steady("candidate")).plan
    as_member(client, plan)
    assert "before the plan ran again" not in text(client, plan_address(plan))
    Plan.objects.filter(pk=plan.pk).update(cancelled_at=timezone.now())

    assert "before the plan ran again" in text(client, plan_address(plan))
