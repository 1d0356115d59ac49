"""Notices and channels in a browser: accessible in both schemes, narrow, and without scripts."""

import pytest
from playwright.sync_api import Page, expect

from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, Notice, Role
from lanes.projects.operations import channels
from tests.browser.conftest import CheckAccess, NewContext, SignIn
from tests.lanes.factories import NOW, make_project, make_user
from tests.lanes.projects.made import make_channel, make_notice

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LIST = "/projects/acme/agent/notices/"


def failing_notice() -> Notice:
    """Return a notice that one channel could not deliver, in a project with channels of each state."""
    project = make_project("acme/agent")
    # The test runner's outbox takes what the e-mail channel sends.
    make_channel(project, name="mail")
    make_channel(project, ChannelKind.WEBHOOK, name="hook", target="https://hub.invalid/in")
    off = make_channel(project, ChannelKind.SLACK, name="off")
    channels.disable_channel(off, actor="user:ada", at=NOW)
    return make_notice(
        project, subject="Nightly support on main is red: resolved fell by 12.5 points"
    )


@pytest.mark.parametrize("part", ["", "{notice}/", "channels/", "channels/hook/", "channels/off/"])
def test_pages_are_accessible_in_both_schemes(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess, part: str
) -> None:
    notice = failing_notice()
    sign_in(scheme_page, make_user(project=notice.project, role=Role.MAINTAINER))

    scheme_page.goto(LIST + part.format(notice=notice.pk))

    expect(scheme_page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(scheme_page)


def test_pages_fit_a_narrow_screen(new_context: NewContext, sign_in: SignIn) -> None:
    notice = failing_notice()
    page: Page = new_context(viewport={"width": 360, "height": 800}).new_page()
    sign_in(page, make_user(project=notice.project, role=Role.MAINTAINER))

    for part in ("", f"{notice.pk}/", "channels/", "channels/hook/"):
        page.goto(LIST + part)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, part


def test_notice_is_acknowledged_without_scripts(plain_page: Page, sign_in: SignIn) -> None:
    notice = failing_notice()
    sign_in(plain_page, make_user("ada", project=notice.project, role=Role.TRIAGER))
    plain_page.goto(LIST)
    expect(plain_page.get_by_role("link", name="Notices 1 open")).to_be_visible()

    plain_page.get_by_role("link", name=notice.subject).click()
    plain_page.get_by_role("button", name="Acknowledge").click()

    expect(plain_page.get_by_text("user:ada")).to_be_visible()
    expect(plain_page.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(plain_page.get_by_role("link", name="Notices", exact=True).first).to_be_visible()


def test_channel_is_made_and_tried_without_scripts(plain_page: Page, sign_in: SignIn) -> None:
    project = make_project("acme/agent")
    sign_in(plain_page, make_user(project=project, role=Role.MAINTAINER))
    plain_page.goto(LIST)
    plain_page.get_by_role("link", name="Channels").click()
    plain_page.get_by_label("Name").fill("mail-to-ada")
    plain_page.get_by_label("Where to").fill("not an address")
    plain_page.get_by_label("drift").uncheck()
    plain_page.get_by_role("button", name="Make the channel").click()
    expect(plain_page.get_by_role("alert").filter(has_text="one e-mail address")).to_be_visible()

    plain_page.get_by_label("Where to").fill("ada@example.org")
    plain_page.get_by_role("button", name="Make the channel").click()
    plain_page.get_by_role("link", name="mail-to-ada").click()

    expect(plain_page.get_by_role("checkbox", name="drift")).not_to_be_checked()
    assert Channel.objects.get().notice_kinds == ["NIGHTLY_RED", "NIGHTLY_ABSENT", "BUDGET"]
    plain_page.get_by_role("button", name="Send a test").click()
    expect(plain_page.get_by_role("heading", level=1)).to_have_text(
        "Test of the channel mail-to-ada"
    )


def test_deliveries_follow_by_themselves(page: Page, sign_in: SignIn) -> None:
    project = make_project("acme/agent")
    make_channel(project, ChannelKind.GITHUB_ISSUE, name="issue")
    notice = make_notice(project)
    Channel.objects.update(paused_until=None)
    Delivery.objects.update(last_error="", next_attempt_at=NOW)
    sign_in(page, make_user(project=project))
    page.goto(f"{LIST}{notice.pk}/")
    expect(page.get_by_text("about to be sent")).to_be_visible()

    Delivery.objects.update(state=DeliveryState.SENT, sent_at=NOW)

    expect(page.get_by_text("sent", exact=True)).to_be_visible(timeout=15_000)
