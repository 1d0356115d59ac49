"""Trusted publishers in a browser: accessible in both schemes, narrow, and without scripts."""

import pytest
from playwright.sync_api import Page, expect

from evalhub.protocol.identity import PublisherSettings
from evalhub.web.errors import ForbiddenError
from lanes.projects.models import Project, Role, TrustedPublisher
from lanes.projects.operations import publishers, refusals
from tests.browser.conftest import CheckAccess, NewContext, SignIn
from tests.lanes.factories import NOW, make_project, make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGE = "/projects/acme/agent/publishers/"


@pytest.fixture
def project() -> Project:
    project = make_project("acme/agent", repository_id=74)
    wanted = PublisherSettings(
        repository_id=74,
        repository_owner_id=65,
        workflow=".github/workflows/nightly-with-a-rather-long-name-of-its-own.yml",
        refs=["refs/heads/main", "refs/heads/gh-readonly-queue/main/*"],
        may_put_documents=True,
    )
    publishers.trust_publisher(project, wanted, at=NOW)
    refusals.record_refusal(
        ForbiddenError("The workflow was x.yml; expected evals.yml."),
        claims={"repository_id": "74", "repository": "acme/agent", "actor": "mallory"},
        is_signed=True,
        address="2001:db8:1:2:3:4:5:6",
        at=NOW,
    )
    return project


def test_page_is_accessible_in_both_schemes(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess, project: Project
) -> None:
    sign_in(scheme_page, make_user(project=project, role=Role.MAINTAINER))

    scheme_page.goto(PAGE)

    expect(scheme_page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(scheme_page)


def test_page_fits_a_narrow_screen(
    new_context: NewContext, sign_in: SignIn, project: Project
) -> None:
    page: Page = new_context(viewport={"width": 360, "height": 800}).new_page()
    sign_in(page, make_user(project=project, role=Role.MAINTAINER))

    page.goto(PAGE)

    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_workflow_is_trusted_and_removed_without_scripts(
    plain_page: Page, sign_in: SignIn, project: Project
) -> None:
    sign_in(plain_page, make_user(project=project, role=Role.MAINTAINER))
    plain_page.goto("/projects/acme/agent/notices/")
    plain_page.get_by_role("link", name="Trusted publishers").click()

    plain_page.get_by_label("Owner id").fill("65")
    plain_page.get_by_label("Workflow", exact=True).fill(".github/workflows/evals.yml")
    plain_page.get_by_label("Refs").fill("refs/pull/*/merge")
    plain_page.get_by_role("button", name="Trust this workflow").click()

    expect(plain_page.get_by_role("rowheader", name=".github/workflows/evals.yml")).to_be_visible()
    plain_page.get_by_role("button", name="Remove .github/workflows/evals.yml").click()
    expect(plain_page.get_by_text("trusted no longer")).to_be_visible()
    in_use = TrustedPublisher.objects.filter(removed_at__isnull=True)
    assert [row.workflow for row in in_use] == [
        ".github/workflows/nightly-with-a-rather-long-name-of-its-own.yml"
    ]
