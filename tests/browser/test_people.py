"""Members, invitations, accounts and the audit in a browser: both schemes, narrow, without scripts."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from lanes.projects.models import Project, Role
from lanes.projects.operations import invitations
from tests.browser.conftest import CheckAccess, NewContext, SignIn
from tests.lanes.factories import make_policy, make_project, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PASSWORD = "correct horse battery"
PAGES = {
    "members": "/projects/acme/agent/members/",
    "audit": "/projects/acme/agent/audit/",
    "account": "/account/",
    "instance": "/audit/",
}


@pytest.fixture
def project() -> Project:
    project = make_project("acme/agent")
    make_policy(project)
    make_user("grace.brewster.murray.hopper@navy.example.org", project=project)
    invite(project)
    return project


def invite(project: Project) -> str:
    """Return the path of a fresh invitation's link."""
    made = invitations.invite(
        project,
        role=Role.TRIAGER,
        guest="Katherine, of the night shift",
        email="",
        life=timedelta(days=1),
        actor="user:ada",
        at=timezone.now(),
    )
    return f"/invitations/{made.secret}/"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_in_both_schemes_and_fits_a_phone(
    scheme_page: Page,
    sign_in: SignIn,
    assert_accessible: CheckAccess,
    project: Project,
    name: str,
) -> None:
    user = make_user("ada", project=project, role=Role.MAINTAINER, password=PASSWORD)
    user.is_superuser = True
    user.save()
    sign_in(scheme_page, user)
    scheme_page.goto(PAGES[name])

    expect(scheme_page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(scheme_page)
    scheme_page.set_viewport_size({"width": 360, "height": 800})
    assert scheme_page.evaluate("document.documentElement.scrollWidth") == 360


def test_guest_becomes_a_member_without_scripts(
    plain_page: Page, new_context: NewContext, sign_in: SignIn, project: Project
) -> None:
    sign_in(plain_page, make_user("ada", project=project, role=Role.MAINTAINER))
    plain_page.goto("/projects/acme/agent/notices/")
    plain_page.get_by_role("link", name="Members").click()
    plain_page.get_by_label("For whom").fill("Katherine")
    plain_page.get_by_role("button", name="Make the link").click()
    link = plain_page.locator("pre").inner_text()

    guest: Page = new_context(java_script_enabled=False).new_page()
    guest.goto(link[link.index("/invitations/") :])
    expect(guest).to_have_url(re.compile(r"/invitation/$"))
    guest.get_by_label("Name").fill("katherine")
    guest.get_by_label("Password").fill(PASSWORD)
    guest.get_by_role("button", name="Make the account").click()

    expect(guest.get_by_text("You are viewer of acme/agent now.")).to_be_visible()
    plain_page.get_by_role("link", name="I have it").click()
    expect(plain_page.get_by_role("rowheader", name="katherine", exact=True)).to_be_visible()


def test_invitation_is_accessible(
    scheme_page: Page, assert_accessible: CheckAccess, project: Project
) -> None:
    scheme_page.goto(invite(project))

    expect(scheme_page.get_by_role("heading", level=1)).to_have_text(
        "You are invited to acme/agent"
    )
    assert_accessible(scheme_page)


def test_everything_is_signed_out_at_a_press(page: Page, new_context: NewContext) -> None:
    make_user("ada", password=PASSWORD)
    elsewhere: Page = new_context().new_page()
    enter_with_password(page)
    enter_with_password(elsewhere)

    page.goto("/account/")
    page.get_by_label("Your password").last.fill(PASSWORD)
    page.get_by_role("button", name="Sign out everywhere").click()

    expect(page.get_by_text("All your sessions are ended.")).to_be_visible()
    elsewhere.goto("/account/")
    expect(elsewhere.get_by_role("heading", level=1)).to_have_text("Sign in")


def enter_with_password(page: Page) -> None:
    page.goto("/sign-in/")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="ada")).to_be_visible()
