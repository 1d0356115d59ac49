"""A project with one of everything that a page's address names, and all kinds of people who ask for it."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from evalhub.protocol.identity import PublisherSettings
from lanes.plans import queries as plan_queries
from lanes.projects.models import Membership, Project, Role, Scope
from lanes.projects.operations import invitations, sign_in
from lanes.projects.operations.publishers import trust_publisher
from tests.evidence.factories import first_run_key, make_file, make_refusal, make_run
from tests.lanes import factories
from tests.lanes.projects.made import make_channel, make_notice

WHO = ("administrator", "maintainer", "triager", "viewer", "stranger", "nobody")


class World(NamedTuple):
    """A project with one of everything that an address names, and who asks for it."""

    names: dict[str, dict[str, Any]]
    clients: dict[str, Client]
    project: Project
    policy_digest: str

    def ask(self, page: str, method: str, who: str) -> int:
        """Return the status of a request, and leave everything as it was."""
        with transaction.atomic():
            status = self.client(who).generic(method, self.path(page)).status_code
            transaction.set_rollback(True)
        return status

    def path(self, page: str) -> str:
        names = dict(self.names["*"], **self.names.get(page, {}))
        return reverse(page, kwargs={name: names[name] for name in converters(page)})

    def endpoint(self, route: str, row: tuple[str, str]) -> str:
        """Return the path of a route of the API; `row` is whose change it belongs to."""
        known = {**self.names["*"], **self.names["api"], **self.names["api"].get(row[1], {})}
        for name, value in known.items():
            route = route.replace(f"<{name}>", str(value))
        assert "<" not in route, f"{route} names something that this world does not have"
        return f"/api/v1/{route}"

    def client(self, who: str) -> Client:
        client = Client(raise_request_exception=False)
        # A copy: whoever is signed out on the way has a cookie no more.
        client.cookies = deepcopy(self.clients[who].cookies)
        return client


def make_world() -> World:
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
    owner, _, name = project.name.partition("/")
    names["api"] = {
        "owner": owner,
        "suite": "support",
        "key": attempt.key,
        "attempt": attempt.key,
        "projects/<owner>/<name>/retention": {"name": name},
        "projects/<project>/publishers/<number>": names["publisher-remove"],
        "projects/<project>/tokens/<number>": names["token-revoke"],
    }
    policy = plan_queries.current_policy(project)
    assert policy is not None
    return World(names, clients, project, policy.digest)


def _patterns(patterns: Any, place: str) -> Iterator[tuple[str, URLPattern]]:
    for entry in patterns:
        here = place + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _patterns(entry.url_patterns, here)
        elif not here.startswith("api/v1/"):
            assert entry.name, f"{here} has no name"
            yield entry.name, entry


def pages() -> dict[str, URLPattern]:
    return dict(_patterns(get_resolver().url_patterns, ""))


def converters(page: str) -> list[str]:
    return list(pages()[page].pattern.converters)
