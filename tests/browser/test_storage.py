"""Storage, pins and purges in a browser: both schemes, a phone, axe, and forms without JavaScript."""

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from evidence.store.models import Pin, Removal, Run
from evidence.store.operations import counting, pins, purging, retention
from evidence.store.operations.retention import Days
from lanes.projects.models import Role
from tests.browser.conftest import CheckAccess, SignIn
from tests.evidence.factories import make_refusal, make_run
from tests.lanes.factories import NOW, make_attempt, make_plan, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REASON = "A customer's full name and address were in the transcript."


def make_stored() -> Run:
    """Return a run of a plan that is pinned, and of which one segment was purged."""
    attempt = make_attempt(make_plan())
    run, plan = make_run(attempt), attempt.lane.plan
    make_refusal(attempt)
    counting.count_stored()
    purging.purge(
        purging.one_segment(plan, attempt.key, 2), reason=REASON, actor="user:ada", at=NOW
    )
    pins.pin_plan(plan, reason="Shown to the customer in May.", actor="user:ada", at=NOW)
    return run


def pages() -> dict[str, Callable[[Run], str]]:
    return {
        "storage": lambda run: reverse("storage", args=[run.plan.project.name]),
        "purge": lambda run: reverse("plan-purge", args=[run.plan.digest]),
        "removed": lambda run: reverse("run", args=[run.pk]),
    }


@pytest.mark.parametrize("name", pages())
def test_page_is_accessible_in_both_schemes_and_fits_a_phone(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess, name: str
) -> None:
    run = make_stored()
    sign_in(scheme_page, make_user(project=run.plan.project, role=Role.MAINTAINER))

    scheme_page.goto(pages()[name](run))

    expect(scheme_page.get_by_text(REASON).first).to_be_visible()
    assert_accessible(scheme_page)
    scheme_page.set_viewport_size({"width": 360, "height": 800})
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_forms_work_without_javascript(plain_page: Page, sign_in: SignIn) -> None:
    run = make_stored()
    plan = run.plan
    sign_in(plain_page, make_user(project=plan.project, role=Role.MAINTAINER))

    plain_page.goto(reverse("storage", args=[plan.project.name]))
    plain_page.get_by_label("Transcripts, logs and files").fill("30")
    plain_page.get_by_role("button", name="See what would go").click()
    plain_page.get_by_role("button", name="Keep so").click()
    expect(plain_page.get_by_text("Evidence is kept as you set it.")).to_be_visible()
    assert retention.days_of(plan.project) == Days(None, 30)

    plain_page.get_by_role("link", name="Pin or purge plan").click()
    plain_page.get_by_role("button", name="Unpin").click()
    assert not Pin.objects.exists()
    plain_page.get_by_label("Why its bytes must go").fill(REASON)
    plain_page.get_by_role("button", name="Remove the bytes for good").click()
    expect(plain_page.get_by_text("segments are being removed")).to_be_visible()
    assert Removal.objects.count() == 2
