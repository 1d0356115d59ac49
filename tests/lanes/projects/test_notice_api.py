"""The endpoints of notices and channels."""

from urllib.parse import urlsplit

import pytest

from evalhub.protocol.notices import Channel as ChannelDocument
from evalhub.protocol.notices import Notice as NoticeDocument
from lanes.projects.models import (
    AuditEntry,
    Channel,
    ChannelKind,
    NoticeKind,
    NoticeState,
    Project,
    Scope,
)
from tests.lanes import factories
from tests.lanes.projects.made import make_channel, make_notice
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db

NOTICES, CHANNELS = "/projects/acme/agent/notices", "/projects/acme/agent/channels"
HOOK = {"kind": "WEBHOOK", "target": "https://hub.test/in/geheim", "notices": ["BUDGET", "DRIFT"]}


@pytest.fixture
def admin() -> str:
    return factories.make_token(factories.make_project("acme/agent")).secret


def test_notices_are_read_page_by_page(admin: str) -> None:
    project = Project.objects.get()
    made = [make_notice(project) for _ in range(5)]
    reader = factories.make_token(project, Scope.READ).secret
    seen: list[int] = []
    path: str | None = f"{NOTICES}?limit=2"
    while path is not None:
        answer = send("GET", path, secret=reader)
        assert answer.status == 200
        seen += [
            NoticeDocument.model_validate(row, strict=False).number
            for row in answer.body["notices"]
        ]
        following = answer.body["next"] and urlsplit(answer.body["next"])
        path = following and f"{NOTICES}?{following.query}"

    assert seen == [notice.pk for notice in made][::-1]


def test_notices_are_chosen_by_state_and_kind(admin: str) -> None:
    project = Project.objects.get()
    drift = make_notice(project, kind=NoticeKind.DRIFT)
    make_notice(project)

    answer = send("GET", f"{NOTICES}?state=OPEN&kind=DRIFT", secret=admin)

    assert [row["number"] for row in answer.body["notices"]] == [drift.pk]
    for query in ("state=open", "kind=X", "limit=0", "limit=501", "before=x"):
        refused = send("GET", f"{NOTICES}?{query}", secret=admin)
        assert_problem(refused, 400, "bad-parameter")


def test_notice_is_acknowledged_once(admin: str) -> None:
    notice = make_notice(Project.objects.get())

    first = send("POST", f"{NOTICES}/{notice.pk}/acknowledge", secret=admin)
    second = send("POST", f"{NOTICES}/{notice.pk}/acknowledge", secret=admin)

    assert (first.status, first.body["state"]) == (200, "ACKNOWLEDGED")
    assert first.body["acknowledged_by"].startswith("token:evh_")
    assert second.body == first.body
    assert send("GET", f"{NOTICES}/{notice.pk}", secret=admin).body == first.body
    assert AuditEntry.objects.filter(action="notice.acknowledge").count() == 1


def test_channel_is_made_changed_and_disabled(admin: str) -> None:
    made = send("PUT", f"{CHANNELS}/hook", HOOK, secret=admin)
    changed = send(
        "PUT", f"{CHANNELS}/hook", {"kind": "WEBHOOK", "notices": ["DRIFT"]}, secret=admin
    )
    listed = send("GET", CHANNELS, secret=admin)

    assert made.status == 201
    assert made.body["secret"].startswith("whsec_")
    assert (changed.status, changed.body["secret"]) == (200, None)
    (row,) = listed.body["channels"]
    assert ChannelDocument.model_validate(row, strict=False).place == "hub.test/…"
    assert row["notices"] == ["DRIFT"]
    assert "geheim" not in str([made.body, changed.body, listed.body])
    assert "secret" not in row
    assert send("DELETE", f"{CHANNELS}/hook", secret=admin).status == 204
    assert send("DELETE", f"{CHANNELS}/hook", secret=admin).status == 204
    again = send("GET", f"{CHANNELS}/hook", secret=admin)
    assert again.body["disabled_at"] is not None


def test_test_of_a_channel_is_a_notice(admin: str) -> None:
    make_channel(Project.objects.get(), ChannelKind.GITHUB_ISSUE, name="issue")

    answer = send("POST", f"{CHANNELS}/issue/test", secret=admin)

    assert (answer.status, answer.body["kind"], answer.body["state"]) == (201, "TEST", "RESOLVED")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**HOOK, "target": "http://hub.test/"}, 422, "invalid-channel"),
        ({**HOOK, "target": "https://[::1%25lo]/"}, 422, "invalid-channel"),
        ({**HOOK, "notices": []}, 422, "invalid-document"),
        ({**HOOK, "notices": ["TEST"]}, 422, "invalid-document"),
        ({**HOOK, "extra": 1}, 422, "invalid-document"),
        ({"kind": "SLACK", "notices": ["DRIFT"]}, 422, "invalid-channel"),
        ([], 422, "invalid-document"),
        (b"{", 422, "invalid-document"),
    ],
)
def test_wrong_channels_are_refused(admin: str, body: object, status: int, code: str) -> None:
    assert_problem(send("PUT", f"{CHANNELS}/hook", body, secret=admin), status, code)
    assert not Channel.objects.exists()


def test_absent_things_are_named(admin: str) -> None:
    for method, path in (
        ("GET", f"{NOTICES}/999999"),
        ("POST", f"{NOTICES}/999999/acknowledge"),
        ("GET", f"{CHANNELS}/none"),
        ("DELETE", f"{CHANNELS}/none"),
        ("POST", f"{CHANNELS}/none/test"),
    ):
        assert_problem(send(method, path, secret=admin), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "scopes"),
    [
        ("GET", NOTICES, {Scope.READ}),
        ("GET", NOTICES + "/{notice}", {Scope.READ}),
        ("POST", NOTICES + "/{notice}/acknowledge", set()),
        ("GET", CHANNELS, set()),
        ("GET", CHANNELS + "/mail", set()),
        ("PUT", CHANNELS + "/mail", set()),
        ("POST", CHANNELS + "/mail/test", set()),
        ("DELETE", CHANNELS + "/mail", set()),
    ],
)
def test_endpoints_open_by_scope_and_to_no_stranger(
    admin: str, method: str, path: str, scopes: set[Scope]
) -> None:
    project = Project.objects.get()
    make_channel(project, name="mail")
    notice = make_notice(project)
    path = path.format(notice=notice.pk)
    body = {"kind": "EMAIL", "target": "ada@example.org", "notices": ["DRIFT"]}
    given = body if method == "PUT" else None
    foreign = factories.make_token(factories.make_project()).secret
    for scope in set(Scope) - {Scope.PROJECT_ADMIN}:
        answer = send(method, path, given, secret=factories.make_token(project, scope).secret)
        assert (answer.status < 300) == (scope in scopes), (scope, answer)
        if scope not in scopes:
            assert_problem(answer, 403, "forbidden")
    assert_problem(send(method, path, given, secret=foreign), 403, "forbidden")
    assert_problem(send(method, path, given), 401, "not-authenticated")
    assert send(method, path, given, secret=admin).status < 300
    notice.refresh_from_db()
    assert notice.state in {NoticeState.OPEN, NoticeState.ACKNOWLEDGED}
