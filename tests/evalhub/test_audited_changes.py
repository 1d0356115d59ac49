"""Each form and endpoint that changes something leaves its entry in the audit, without a secret.

The addresses come from the resolver, so that a new one without a row here fails.
"""

import json
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client

from lanes.projects.models import AuditEntry, Project, Token
from lanes.projects.queries.audit import AREAS
from tests.evalhub.page_world import World, make_world
from tests.evalhub.test_page_roles import PAGES
from tests.lanes import factories

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
NEW_PASSWORD = "another horse battery"
HOOK_PATH = "T000-B000-a-secret-of-the-receiver"
REASON = {"reason": "nobody waits for it"}


class Change(NamedTuple):
    """What is sent, what comes first, and the entry that it leaves."""

    action: str
    body: dict[str, Any] = {}
    first: str = ""
    """A page of the same row's kind, or an endpoint, that is asked before with its own body."""
    who: str = "maintainer"


FORMS = {
    "sign-in": Change(
        "user.sign_in", {"username": "with-password", "password": PASSWORD}, who="nobody"
    ),
    "sign-in-link": Change("user.sign_in", who="nobody"),
    "sign-out": Change("user.sign_out"),
    "account": Change("user.password", {"password": NEW_PASSWORD}),
    "sign-out-everywhere": Change("user.sign_out_everywhere"),
    "invitation": Change("invitation.accept", first="invitation-link", who="stranger"),
    "members": Change("invitation.make", {"guest": "Ada", "role": "VIEWER", "days": "1"}),
    "member-role": Change("member.role", {"role": "TRIAGER"}),
    "member-remove": Change("member.remove"),
    "invitation-revoke": Change("invitation.revoke"),
    "tokens": Change("token.issue", {"name": "CI", "scopes": ["read"], "days": "9"}),
    "token-revoke": Change("token.revoke"),
    "publishers": Change(
        "publisher.trust",
        {"repository_id": 74, "repository_owner_id": 65, "workflow": ".github/workflows/b.yml"},
    ),
    "publisher-remove": Change("publisher.remove"),
    "notice-acknowledge": Change("notice.acknowledge"),
    "notice-feed-make": Change("feed.make"),
    "notice-feed-revoke": Change("feed.revoke", first="notice-feed-make"),
    "notice-channels": Change(
        "channel.put",
        {
            "name": "hook",
            "kind": "SLACK",
            "target": f"https://hooks.hub.test/{HOOK_PATH}",
            "notices": ["BUDGET"],
        },
    ),
    "notice-channel": Change("channel.put", {"target": "", "notices": ["BUDGET"]}),
    "notice-channel-test": Change("channel.test"),
    "notice-channel-disable": Change("channel.disable"),
    "plan-close": Change("plan.close"),
    "plan-reopen": Change("plan.reopen", first="plan-close"),
    "plan-cancel": Change("plan.cancel", REASON),
    "plan-pin": Change("plan.pin", REASON),
    "plan-unpin": Change("plan.unpin", first="plan-pin"),
    "plan-purge": Change("evidence.purge", REASON),
    "storage": Change("retention.set", {"bulk_days": "30", "confirmed": "1"}),
    "quarantine-unmasked": Change("evidence.raw"),
    "item-unmasked": Change("evidence.raw"),
}


@pytest.fixture
def world() -> World:
    factories.make_user("with-password", password=PASSWORD)
    return make_world()


def entries(of: World, page: str, change: Change) -> list[AuditEntry]:
    """Send the form, and return what it left in the audit; leave everything as it was."""
    with transaction.atomic():
        client = of.client(change.who)
        if change.first:
            earlier = FORMS.get(change.first)
            path = of.path(change.first)
            client.post(path, earlier.body) if earlier else client.get(path)
        last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        client.post(of.path(page), change.body)
        found = list(AuditEntry.objects.filter(pk__gt=last).order_by("pk"))
        transaction.set_rollback(True)
    return found


def test_every_form_has_a_row() -> None:
    assert FORMS.keys() == {page for page, method in PAGES if method == "POST"}


def test_every_form_leaves_its_entry(world: World) -> None:
    wrong = {}
    for page, change in FORMS.items():
        left = entries(world, page, change)
        told = [(entry.action, entry.actor.partition(":")[0]) for entry in left]
        if told != [(change.action, "user")]:
            wrong[page] = told

    assert wrong == {}


def test_the_filter_knows_every_area(world: World) -> None:
    made = {
        entry.action for page, change in FORMS.items() for entry in entries(world, page, change)
    }
    made |= set(AuditEntry.objects.values_list("action", flat=True))

    assert {action.partition(".")[0] for action in made} <= set(AREAS)


def test_no_entry_holds_a_secret(world: World) -> None:
    """All forms in a row, their answers' secrets gathered: none is in the audit, on its page or in its files."""
    project = Project.objects.get(name=world.names["*"]["project"])
    told: list[str] = []
    secrets = [PASSWORD, NEW_PASSWORD, HOOK_PATH, project.salt]
    secrets += [world.names["sign-in-link"]["secret"], world.names["invitation-link"]["secret"]]
    for page, change in FORMS.items():
        with transaction.atomic():
            client = world.client(change.who)
            answer = client.post(world.path(page), change.body)
            secrets += secrets_in(answer.content.decode(errors="replace"))
            session = client.cookies.get("evalhub_session")
            secrets += [session.value] if session is not None else []
            told.append(json.dumps(list(AuditEntry.objects.values()), default=str))
            reader = world.client("administrator")
            told.append(reader.get(world.path("audit")).content.decode())
            told += [whole(reader, f"{world.path('audit-file')}?form={form}") for form in FILES]
            transaction.set_rollback(True)
    secrets += Token.objects.values_list("digest", flat=True)

    assert len(set(secrets)) > 12
    assert [secret for secret in set(secrets) if secret and secret in "".join(told)] == []


FILES = ("jsonl", "csv")


def whole(reader: Client, path: str) -> str:
    return reader.get(path).getvalue().decode()


def secrets_in(page: str) -> list[str]:
    """Return the secrets that an answer shows: they begin with a prefix, and are long."""
    return [
        word
        for word in page.replace("/", " ")
        .replace("=", " ")
        .replace("<", " ")
        .replace(">", " ")
        .split()
        if word.startswith(("evh_", "evi_", "evf_", "whsec_")) and len(word) > 20
    ]
