"""Expected nightlies and match rates: readable in both schemes, by everybody, on a narrow screen."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from evalhub.protocol.messages import ScheduleRequest
from lanes.plans.models import ExpectedSchedule
from lanes.plans.operations import schedules
from tests.browser.conftest import CheckAccess, SignIn
from tests.evidence.factories import ndjson, send_members
from tests.evidence.store.test_probes import make_probing_attempt, probe_line
from tests.lanes.factories import make_suite, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_nightlies_and_probes_are_accessible(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess
) -> None:
    attempt = make_probing_attempt()
    project = attempt.lane.plan.project
    lines = [probe_line(f"pi.{n}", "mismatch", paths=["/data/*/status"] * 3) for n in range(4)]
    send_members(attempt, {"lane/probes.1.ndjson": ndjson(probe_line(), *lines)})
    make_suite(project)
    wanted = ScheduleRequest(cron="0 3 * * *", timezone="America/Argentina/Buenos_Aires")
    schedule = schedules.put_schedule(project, "support", wanted, at=timezone.now()).schedule
    ExpectedSchedule.objects.filter(pk=schedule.pk).update(
        missed_since=timezone.now() - timedelta(days=2), missed_count=2
    )
    sign_in(scheme_page, make_user(project=project))
    scheme_page.set_viewport_size({"width": 360, "height": 700})

    scheme_page.goto(reverse("plans"))
    expect(scheme_page.get_by_role("region", name="Expected nightlies, table")).to_contain_text(
        "absent"
    )
    assert_accessible(scheme_page)
    scheme_page.goto(reverse("plan", args=[attempt.lane.plan.digest]))
    scheme_page.get_by_text("4 probes of payments").click()
    expect(scheme_page.get_by_text("/data/*/status").first).to_be_visible()
    assert_accessible(scheme_page)

    # What is wide scrolls by itself; the page does not.
    assert scheme_page.evaluate("document.documentElement.scrollWidth") <= 360
