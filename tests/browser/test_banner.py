"""The banner of a silent worker: read in both schemes, on a small screen, without JavaScript."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings

from evalhub.tasks import operations
from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName
from tests.browser.conftest import CheckAccess, SignIn
from tests.lanes.factories import make_plan, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def silent_worker(settings: Settings, db: None) -> None:
    """Let the last sweep have been done four minutes ago."""
    settings.WORKER_SILENT_SECONDS = 60
    SweepRun.objects.all().delete()
    at = timezone.now() - timedelta(minutes=4)
    operations.record_sweep(TaskName.SWEEP_CHECKS, started_at=at, ended_at=at)


def test_banner_is_read_in_both_schemes_and_fits_a_small_screen(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess
) -> None:
    sign_in(scheme_page, make_user(project=make_plan().project))
    scheme_page.set_viewport_size({"width": 360, "height": 700})

    scheme_page.goto(reverse("plans"))

    banner = scheme_page.get_by_role("status")
    expect(banner).to_contain_text("The worker has been silent for 4\xa0minutes")
    expect(banner).to_contain_text("manage.py doctor")
    box = banner.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360
    assert_accessible(scheme_page)


def test_banner_needs_no_javascript(plain_page: Page, sign_in: SignIn) -> None:
    sign_in(plain_page, make_user(project=make_plan().project))

    plain_page.goto(reverse("plans"))

    expect(plain_page.get_by_role("status")).to_contain_text("conclusions and checks wait.")
