"""Each endpoint that changes something leaves its entry in the audit, in the name of its token.

The list of endpoints is that of test_api_scopes.py, which the resolver is compared with.
"""

import json
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from lanes.projects.models import AuditEntry
from tests.evalhub.page_world import World, make_world
from tests.evalhub.test_api_scopes import ALLOWED
from tests.lanes import factories

pytestmark = pytest.mark.django_db

Json = dict[str, Any]
REASON = {"reason": "nobody waits for it"}
CHANNEL = {"kind": "EMAIL", "target": "ada@example.org", "notices": ["BUDGET"]}
SCHEDULE = {"cron": "0 3 * * *", "timezone": "UTC", "grace_minutes": 60, "paused": False}
NIGHTLY = ("PUT", "projects/<project>/schedules/support")

OF_THEIR_OWN = {
    ("POST", "attempts/<key>/heartbeat"): "the attempt says when it was heard last",
    ("POST", "attempts/<key>/budget"): "the ledger has each sum, and is only appended to",
    ("PUT", "attempts/<attempt>/segments/<seq>"): "the segment is the record, with its receipt",
    ("POST", "attempts/<attempt>/seal"): "the seal is the record: it is kept, and made once",
}
"""What lanes do all day. Each is a row of its own that nobody edits."""


class Change(NamedTuple):
    action: str
    body: Json | None = None
    first: tuple[str, str, Json | None] | None = None
    """What is sent before."""


def changes(of: World) -> dict[tuple[str, str], Change]:
    close = ("POST", "plans/<digest>/close", None)
    policy = {**factories.POLICY, "guards": {"required": [], "max_age_minutes": 61}}
    trusted = {
        "repository_id": 74,
        "repository_owner_id": 65,
        "workflow": ".github/workflows/b.yml",
    }
    document = json.loads(
        json.dumps(
            factories.plan_document(of.project, policy_digest=of.policy_digest, at=timezone.now())
        )
    )
    return {
        ("POST", "projects/<project>/publishers"): Change("publisher.trust", trusted),
        ("DELETE", "projects/<project>/publishers/<number>"): Change("publisher.remove"),
        ("POST", "projects/<project>/tokens"): Change(
            "token.issue", {"name": "CI", "scopes": ["read"], "days": 9}
        ),
        ("DELETE", "projects/<project>/tokens/<number>"): Change("token.revoke"),
        ("POST", "projects/<project>/notices/<number>/acknowledge"): Change("notice.acknowledge"),
        ("PUT", "projects/<project>/channels/<name>"): Change("channel.put", CHANNEL),
        ("DELETE", "projects/<project>/channels/<name>"): Change("channel.disable"),
        ("POST", "projects/<project>/channels/<name>/test"): Change("channel.test"),
        ("PUT", "projects/<project>/pools/<name>"): Change("pool.put", {"limit_microusd": 5}),
        ("PUT", "projects/<project>/suite"): Change("suite.put", factories.suite_document()),
        ("PUT", "projects/<project>/policy"): Change("policy.put", policy),
        ("PUT", "projects/<project>/schedules/<suite>"): Change("schedule.put", SCHEDULE),
        ("DELETE", "projects/<project>/schedules/<suite>"): Change(
            "schedule.remove", None, (*NIGHTLY, SCHEDULE)
        ),
        ("POST", "plans"): Change("plan.register", document),
        ("POST", "plans/<digest>/close"): Change("plan.close"),
        ("POST", "plans/<digest>/reopen"): Change("plan.reopen", None, close),
        ("POST", "plans/<digest>/cancel"): Change("plan.cancel", REASON),
        ("POST", "plans/<digest>/lanes/<lane>/attempts"): Change("token.issue"),
        ("POST", "attempts/<key>/token"): Change("token.issue"),
        ("PUT", "projects/<owner>/<name>/retention"): Change(
            "retention.set", {"record_days": None, "bulk_days": 30}
        ),
        ("PUT", "plans/<digest>/pin"): Change("plan.pin", REASON),
        ("DELETE", "plans/<digest>/pin"): Change(
            "plan.unpin", None, ("PUT", "plans/<digest>/pin", REASON)
        ),
        ("POST", "plans/<digest>/purges"): Change("evidence.purge", {"scope": "plan", **REASON}),
    }


ELSEWHERE = {
    ("POST", "projects/<owner>/<name>/imports"): "tests/evidence/store/test_importing.py",
    ("POST", "projects/<project>/baselines"): "tests/gates/verdicts/test_baselines.py",
}
"""Their bodies are a whole archive and a concluded plan; there the entry is looked at."""


@pytest.fixture
def world() -> World:
    return make_world()


def entries(of: World, secret: str, row: tuple[str, str], change: Change) -> list[AuditEntry]:
    """Send the request, and return what it left in the audit; leave everything as it was."""
    with transaction.atomic():
        if change.first is not None:
            method, route, body = change.first
            send(method, of.endpoint(route, row), body, secret)
        last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        send(row[0], of.endpoint(row[1], row), change.body, secret)
        found = list(AuditEntry.objects.filter(pk__gt=last).order_by("pk"))
        transaction.set_rollback(True)
    return found


def send(method: str, path: str, body: Json | None, secret: str) -> None:
    Client(raise_request_exception=False).generic(
        method,
        path,
        b"" if body is None else json.dumps(body).encode(),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )


def test_every_endpoint_that_changes_something_has_a_row(world: World) -> None:
    changing = {(method, route) for route, method in ALLOWED if method != "GET"}

    assert changing == changes(world).keys() | OF_THEIR_OWN.keys() | ELSEWHERE.keys()


def test_every_change_leaves_its_entry(world: World) -> None:
    issued = factories.make_token(world.project)
    wrong = {}
    for row, change in changes(world).items():
        left = entries(world, issued.secret, row, change)
        told = [(entry.action, entry.actor[:14]) for entry in left]
        if told != [(change.action, f"token:{issued.token.prefix}")]:
            wrong[row] = told

    assert wrong == {}
