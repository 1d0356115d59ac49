"""Markers and flags of secrets as a person sees them, in both color schemes."""

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from evidence.store.models import Item
from lanes.projects.models import Role
from tests.browser.conftest import CheckAccess, SignIn
from tests.evalhub.protocol.secret_samples import AWS_KEY, GITHUB_TOKEN
from tests.evidence.factories import judge_line
from tests.evidence.reader.factories import make_run, send, turn
from tests.lanes.factories import make_user

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_pages_show_markers_where_secrets_stood(
    scheme_page: Page, sign_in: SignIn, assert_accessible: CheckAccess
) -> None:
    secrets = f"The keys are {AWS_KEY} and {GITHUB_TOKEN}, keep them."
    run = make_run(
        outcome="failed",
        turns=[turn(1, "Where are the keys?", role="user"), turn(2, secrets)],
        judged=[judge_line(0.0, rationale=f"It told {GITHUB_TOKEN}.")],
        files={"notes.txt": f"{secrets}\n".encode()},
    )
    record = b'{"counts": {"env": 3, "github-pat": 1}, "not_looked_at": 2}'
    send(
        run.attempt,
        {"lane/redactions.json": record, "lane/logs/agent.1.log": f"{secrets}\n".encode()},
    )
    sign_in(scheme_page, make_user(project=run.plan.project, role=Role.MAINTAINER))
    item = Item.objects.get(run=run, kind="file")

    for address in (
        reverse("run", args=[run.pk]),
        reverse("item", args=[item.pk]),
        reverse("lane", args=[run.plan.digest, run.lane.name]),
        reverse("plan", args=[run.plan.digest]),
        reverse("quarantine", args=[run.plan.digest]),
    ):
        scheme_page.goto(address)
        expect(scheme_page.locator("body")).not_to_contain_text(GITHUB_TOKEN)
        assert_accessible(scheme_page)

    scheme_page.goto(reverse("item", args=[item.pk]))
    expect(scheme_page.get_by_text("[redacted:github-pat:1]")).to_be_visible()
    with scheme_page.expect_download() as download:
        scheme_page.get_by_role("button", name="Download it with its secrets").click()
    assert download.value.path().read_text() == f"{secrets}\n"
