"""A real Chromium against the real pages: schemes, pages without scripts, signing in, axe."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tests.browser.find_chromium import FLAGS, working_chromium

NewContext = Callable[..., Any]
SignIn = Callable[[Page, User], None]
CheckAccess = Callable[[Page], None]


@pytest.fixture(scope="session", autouse=True)
def _async_database() -> None:
    """Let Django use its database beside Playwright's event loop, which runs in this thread."""
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    chromium = working_chromium()
    if chromium is None:
        pytest.fail("No Chromium works here: run `make chromium`.")
    # `--headless` is Playwright's to give.
    args = [flag for flag in FLAGS if flag != "--headless"]
    return {**browser_type_launch_args, "executable_path": str(chromium), "args": args}


@pytest.fixture(scope="session")
def base_url(live_server: LiveServer) -> str:
    """Let a test write `page.goto("/plans/")`."""
    return str(live_server.url)


@pytest.fixture(params=["light", "dark"])
def scheme_page(request: pytest.FixtureRequest, new_context: NewContext) -> Page:
    """Return a page in each of the two color schemes."""
    page: Page = new_context(color_scheme=request.param).new_page()
    return page


@pytest.fixture
def plain_page(new_context: NewContext) -> Page:
    """Return a page that runs no JavaScript."""
    page: Page = new_context(java_script_enabled=False).new_page()
    return page


@pytest.fixture
def sign_in(base_url: str) -> SignIn:
    """Return a function that gives a page's browser the session of a person."""

    def give_session(page: Page, user: User) -> None:
        client = Client()
        client.force_login(user)
        session = client.cookies[settings.SESSION_COOKIE_NAME]
        page.context.add_cookies([{"name": session.key, "value": session.value, "url": base_url}])

    return give_session


@pytest.fixture(scope="session")
def assert_accessible() -> CheckAccess:
    """Return a function that lets axe look at a page as it is now, and names what it found."""
    axe = Axe()

    def check(page: Page) -> None:
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()

    return check
