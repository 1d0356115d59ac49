"""Each page and form for its owner, a lower role, a member of another project, and nobody.

The addresses come from the resolver, so that a new page without a row here fails.
"""

from typing import NamedTuple

import pytest

from tests.evalhub.page_world import WHO, World, converters, make_world, pages

pytestmark = pytest.mark.django_db


class Answers(NamedTuple):
    """The status for each of `WHO`."""

    administrator: int
    maintainer: int
    triager: int
    viewer: int
    stranger: int
    nobody: int


def members(status: int = 200) -> Answers:
    """Whoever is in the project; to a stranger there is nothing; nobody is led to the sign-in."""
    return Answers(status, status, status, status, 404, 302)


def triagers(status: int) -> Answers:
    return members(status)._replace(viewer=403)


def maintainers(status: int = 200) -> Answers:
    return triagers(status)._replace(triager=403)


def people(status: int = 200) -> Answers:
    """Whoever has signed in."""
    return everybody(status)._replace(nobody=302)


def everybody(status: int = 200) -> Answers:
    return Answers(status, status, status, status, status, status)


ADMINISTRATORS = Answers(200, 404, 404, 404, 404, 302)
SIGNED_OUT = everybody(302)._replace(nobody=200)
"""The page where one signs in: whoever has done so is sent on."""

PAGES: dict[tuple[str, str], Answers] = {
    ("healthz", "GET"): everybody(),
    ("readyz", "GET"): everybody(),
    ("metrics", "GET"): everybody(),
    ("home", "GET"): everybody(302),
    ("sign-in", "GET"): SIGNED_OUT,
    ("sign-in", "POST"): everybody(422),
    ("sign-in-link", "GET"): everybody(),
    ("sign-in-link", "POST"): everybody(302),
    ("sign-out", "POST"): everybody(302),
    ("account", "GET"): people(),
    ("account", "POST"): people(422),
    ("sign-out-everywhere", "POST"): people(302),
    ("invitation-link", "GET"): everybody(302),
    # Of this session no invitation was followed.
    ("invitation", "GET"): everybody(410),
    ("invitation", "POST"): everybody(410),
    ("instance-audit", "GET"): ADMINISTRATORS,
    ("instance-audit-file", "GET"): ADMINISTRATORS,
    ("members", "GET"): maintainers(),
    ("members", "POST"): maintainers(422),
    ("member-role", "POST"): maintainers(302),
    ("member-remove", "POST"): maintainers(302),
    ("invitation-revoke", "POST"): maintainers(302),
    ("audit", "GET"): maintainers(),
    ("audit-file", "GET"): maintainers(),
    ("tokens", "GET"): maintainers(),
    ("tokens", "POST"): maintainers(422),
    ("token-revoke", "POST"): maintainers(302),
    ("publishers", "GET"): maintainers(),
    ("publishers", "POST"): maintainers(422),
    ("publisher-remove", "POST"): maintainers(302),
    # Whoever has one project alone is led to it.
    ("notice-overview", "GET"): people(302)._replace(administrator=200),
    ("notices", "GET"): members(),
    ("notice", "GET"): members(),
    ("notice-acknowledge", "POST"): triagers(302),
    # Feed readers know no sign-in page.
    ("notice-feed", "GET"): members()._replace(nobody=401),
    ("notice-feed-make", "POST"): members(),
    ("notice-feed-revoke", "POST"): members(302),
    ("notice-channels", "GET"): maintainers(),
    ("notice-channels", "POST"): maintainers(422),
    ("notice-channel", "GET"): maintainers(),
    ("notice-channel", "POST"): maintainers(422),
    ("notice-channel-test", "POST"): maintainers(302),
    ("notice-channel-disable", "POST"): maintainers(302),
    ("plans", "GET"): people(),
    ("plan", "GET"): members(),
    ("plan-close", "POST"): maintainers(302),
    ("plan-reopen", "POST"): maintainers(302),
    ("plan-cancel", "POST"): maintainers(302),
    ("plan-pin", "POST"): maintainers(302),
    # Nothing is pinned.
    ("plan-unpin", "POST"): maintainers(404),
    ("plan-purge", "GET"): maintainers(),
    ("plan-purge", "POST"): maintainers(422),
    ("storage", "GET"): members(),
    ("storage", "POST"): maintainers(),
    ("runs", "GET"): members(),
    ("lane", "GET"): members(),
    ("run", "GET"): members(),
    ("run-turn", "GET"): members(),
    # The plan has no baseline to show.
    ("run-baseline", "GET"): members(404),
    ("quarantine", "GET"): members(),
    ("quarantine-file", "GET"): triagers(200),
    ("quarantine-unmasked", "POST"): maintainers(),
    ("item", "GET"): members(),
    ("item-file", "GET"): members(),
    ("item-unmasked", "POST"): maintainers(),
}


@pytest.fixture
def world() -> World:
    return make_world()


def test_every_page_has_a_row() -> None:
    """Endpoints of the API have theirs in test_api_scopes.py."""
    assert pages().keys() == {page for page, _ in PAGES}


def test_who_may_see_and_send_what(world: World) -> None:
    wrong = {
        row: found
        for row in PAGES
        if (found := Answers(*[world.ask(*row, who) for who in WHO])) != PAGES[row]
    }

    assert wrong == {}


def test_pages_take_no_other_methods(world: World) -> None:
    others = [
        (page, method)
        for page in pages()
        for method in ("GET", "POST", "PUT", "DELETE")
        if (page, method) not in PAGES
    ]

    taken = {each: world.ask(*each, "administrator") for each in others}

    assert taken == dict.fromkeys(others, 405)


def test_projects_that_do_not_exist_look_like_those_of_others(world: World) -> None:
    wrong = []
    for page, method in PAGES:
        if "project" in converters(page):
            absent = {"*": {**world.names["*"], "project": "acme/never-made"}, page: {"number": 1}}
            if world._replace(names=absent).ask(page, method, "stranger") != 404:
                wrong.append(page)

    assert wrong == []
