"""Each page and form for its owner, a lower role, a member of another project, and nobody.

The addresses come from the resolver, so that a new page without a row here fails.
"""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from evalhub.protocol.identity import PublisherSettings
from lanes.projects.models import Membership, Role, Scope
from lanes.projects.operations import invitations, sign_in
from lanes.projects.operations.publishers import trust_publisher
from tests.evidence.factories import first_run_key, make_file, make_refusal, make_run
from tests.lanes import factories
from tests.lanes.projects.made import make_channel, make_notice

pytestmark = pytest.mark.django_db

WHO = ("administrator", "maintainer", "triager", "viewer", "stranger", "nobody")


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
    return Answers(*[status] * 5, 302)


def everybody(status: int = 200) -> Answers:
    return Answers(*[status] * 6)


ADMINISTRATORS = Answers(200, 404, 404, 404, 404, 302)
SIGNED_OUT = Answers(*[302] * 5, 200)
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


class World(NamedTuple):
    """A project with one of everything that an address names, and who asks for it."""

    names: dict[str, dict[str, Any]]
    clients: dict[str, Client]

    def ask(self, page: str, method: str, who: str) -> int:
        """Return the status of a request, and leave everything as it was."""
        names = dict(self.names["*"], **self.names.get(page, {}))
        path = reverse(page, kwargs={name: names[name] for name in _converters(page)})
        client = Client(raise_request_exception=False)
        # A copy: whoever is signed out on the way has a cookie no more.
        client.cookies = deepcopy(self.clients[who].cookies)
        with transaction.atomic():
            status = client.generic(method, path).status_code
            transaction.set_rollback(True)
        return status


@pytest.fixture
def world() -> World:
    now = timezone.now()
    project = factories.make_project(repository_id=74, at=now)
    people = {
        role.value.lower(): factories.make_user(role.value.lower(), project=project, role=role)
        for role in Role
    }
    member = factories.make_user("somebody", project=project)
    people["administrator"] = factories.make_user("administrator")
    people["administrator"].is_superuser = True
    people["administrator"].save()
    people["stranger"] = factories.make_user(
        "stranger", project=factories.make_project(), role=Role.MAINTAINER
    )
    clients = {who: Client() for who in WHO}
    for who, user in people.items():
        clients[who].force_login(user)
    plan = factories.make_plan(project, at=now)
    attempt = factories.make_attempt(plan, at=now)
    run = make_run(attempt, at=now)
    make_file(attempt, "notes.txt", b"hello", key=first_run_key(attempt), at=now)
    item = attempt.items.filter(path__contains="/files/").get()
    publisher = trust_publisher(
        project,
        PublisherSettings(
            repository_id=74, repository_owner_id=65, workflow=".github/workflows/evals.yml"
        ),
        actor="user:maintainer",
        at=now,
    ).publisher
    invited = invitations.invite(
        project,
        role=Role.VIEWER,
        guest="Grace",
        email="",
        life=timedelta(days=1),
        actor="user:maintainer",
        at=now,
    )
    names: dict[str, dict[str, Any]] = {
        "*": {
            "project": project.name,
            "digest": plan.digest,
            "lane": "ordinary-1",
            "run_id": run.pk,
            "item_id": item.pk,
            "refusal_id": make_refusal(attempt, at=now).pk,
            "name": make_channel(project).name,
            "number": make_notice(project).pk,
        },
        "run-turn": {"number": 1},
        "publisher-remove": {"number": publisher.pk},
        "token-revoke": {"number": factories.make_token(project, Scope.READ).token.pk},
        "member-role": {"number": Membership.objects.get(project=project, user=member).pk},
        "member-remove": {"number": Membership.objects.get(project=project, user=member).pk},
        "invitation-revoke": {"number": invited.invitation.pk},
        "invitation-link": {"secret": invited.secret},
        "sign-in-link": {"secret": sign_in.create_first_sign_in_link(now)},
    }
    return World(names, clients)


def _patterns(patterns: Any, place: str) -> Iterator[tuple[str, URLPattern]]:
    for entry in patterns:
        here = place + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _patterns(entry.url_patterns, here)
        elif not here.startswith("api/v1/"):
            assert entry.name, f"{here} has no name"
            yield entry.name, entry


def _pages() -> dict[str, URLPattern]:
    return dict(_patterns(get_resolver().url_patterns, ""))


def _converters(page: str) -> list[str]:
    return list(_pages()[page].pattern.converters)


def test_every_page_has_a_row() -> None:
    """Endpoints of the API have theirs in test_api_scopes.py."""
    assert _pages().keys() == {page for page, _ in PAGES}


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
        for page in _pages()
        for method in ("GET", "POST", "PUT", "DELETE")
        if (page, method) not in PAGES
    ]

    taken = {each: world.ask(*each, "administrator") for each in others}

    assert taken == dict.fromkeys(others, 405)


def test_projects_that_do_not_exist_look_like_those_of_others(world: World) -> None:
    wrong = []
    for page, method in PAGES:
        if "project" in _converters(page):
            absent = {"*": {**world.names["*"], "project": "acme/never-made"}, page: {"number": 1}}
            if world._replace(names=absent).ask(page, method, "stranger") != 404:
                wrong.append(page)

    assert wrong == []
