"""Tokens in a browser: accessible in both schemes, narrow, and without scripts."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from lanes.projects.models import Project, Role, Token
from tests.browser.conftest import CheckAccess, NewContext, SignIn
from tests.lanes.factories import make_project, make_token, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGE = "/projects/acme/agent/tokens/"


@pytest.fixture
def project() -> Project:
    project = make_project("acme/agent")
    make_token(project, expires_at=timezone.now() + timedelta(days=3))
    make_token(project, expires_at=timezone.now() - timedelta(days=3))
    return project


def test_page_is_accessible_in_both_schemes(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess, project: Project
) -> None:
    sign_in(scheme_page, make_user(project=project, role=Role.MAINTAINER))

    scheme_page.goto(PAGE)

    expect(scheme_page.get_by_text("within two weeks")).to_be_visible()
    assert_accessible(scheme_page)


def test_page_fits_a_narrow_screen(
    new_context: NewContext, sign_in: SignIn, project: Project
) -> None:
    page: Page = new_context(viewport={"width": 360, "height": 800}).new_page()
    sign_in(page, make_user(project=project, role=Role.MAINTAINER))

    page.goto(PAGE)

    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_token_is_made_shown_once_and_revoked_without_scripts(
    plain_page: Page, sign_in: SignIn, project: Project
) -> None:
    sign_in(plain_page, make_user(project=project, role=Role.MAINTAINER))
    plain_page.goto("/projects/acme/agent/notices/")
    plain_page.get_by_role("link", name="Tokens").click()

    plain_page.get_by_label("Name").fill("nightly")
    plain_page.get_by_label("plan:register: register plans").check()
    plain_page.get_by_role("button", name="Make the token").click()

    secret = plain_page.get_by_text(re.compile("^evh_")).inner_text()
    plain_page.get_by_role("link", name="I have it").click()
    expect(plain_page.get_by_role("rowheader", name="nightly")).to_be_visible()
    assert secret not in plain_page.content()
    plain_page.get_by_role("button", name="Revoke nightly").click()
    expect(plain_page.get_by_text("The token nightly is revoked.")).to_be_visible()
    assert Token.objects.get(name="nightly").revoked_at is not None
