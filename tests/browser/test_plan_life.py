"""What befell a plan, and the buttons to it: readable in both schemes, by everybody, without scripts too."""

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from lanes.projects.models import Role
from tests.browser.conftest import CheckAccess, SignIn
from tests.evidence.factories import make_run, run_keys, seal_attempt
from tests.lanes.factories import make_attempt, make_plan, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WHY = "pull request 12 was closed, nobody waits for it any more"


def make_rerun_plan() -> Plan:
    """Return a plan that was closed, ran again with a second attempt of a lane, and was superseded."""
    at = timezone.now()
    plan = make_plan(at=at)
    first = make_attempt(plan, at=at)
    make_run(first, at=at)
    lifecycle.close_plan(plan, at=at)
    again = make_attempt(plan, at=at)
    make_run(again, run_keys(again)[-1], at=at)
    make_run(first, run_keys(again)[-1], at=at)
    seal_attempt(again, at=at)
    make_attempt(plan, "ordinary-2", at=at)
    make_plan(plan.project, at=at, source={"head_sha": "d" * 40})
    return plan


def test_life_of_a_plan_is_told_and_maintainers_end_it(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess
) -> None:
    plan = make_rerun_plan()
    sign_in(scheme_page, make_user("ada", project=plan.project, role=Role.MAINTAINER))
    scheme_page.set_viewport_size({"width": 360, "height": 700})

    scheme_page.goto(reverse("plan", args=[plan.digest]))
    life = scheme_page.get_by_role("region", name="Life of this plan")
    expect(life).to_contain_text("Superseded")
    assert_accessible(scheme_page)
    scheme_page.get_by_text("Cancel this plan").click()
    scheme_page.get_by_label("Why nobody waits for it").fill(WHY)
    scheme_page.get_by_role("button", name="Cancel for good").click()

    expect(scheme_page.get_by_role("heading", name=f"Cancelled: {WHY}")).to_be_visible()
    expect(life.get_by_role("button")).to_have_count(0)
    assert_accessible(scheme_page)
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360

    scheme_page.goto(reverse("lane", args=[plan.digest, "ordinary-1"]))
    expect(scheme_page.get_by_role("row", name="a newer attempt took its place")).to_be_visible()
    assert_accessible(scheme_page)


def test_plan_is_closed_and_reopened_without_scripts(plain_page: Page, sign_in: SignIn) -> None:
    plan = make_plan(at=timezone.now())
    make_attempt(plan, at=timezone.now())
    sign_in(plain_page, make_user(project=plan.project, role=Role.MAINTAINER))
    plain_page.goto(reverse("plan", args=[plan.digest]))

    plain_page.get_by_role("button", name="Decide now").click()
    expect(plain_page.get_by_text("The plan is closed")).to_be_visible()
    plain_page.get_by_role("button", name="Wait for the lanes again").click()

    expect(plain_page.get_by_text("The plan waits for its lanes again")).to_be_visible()
    expect(plain_page.get_by_role("button", name="Decide now")).to_be_visible()
