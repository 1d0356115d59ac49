"""Tokens that maintainers make: through the API and on the page; listed without secrets, with an end."""

import re
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from evalhub.protocol.identity import TokenScope
from lanes.projects.models import AuditEntry, Project, Role, Scope, Token
from lanes.projects.operations import static_tokens, tokens
from lanes.projects.operations.static_tokens import MOST_TOKENS
from tests.lanes import factories
from tests.lanes.projects.identities import project
from tests.lanes.wire import Answer, assert_problem, send

__all__ = ["project"]

pytestmark = pytest.mark.django_db

PAGE = "/projects/octo-org/octo-repo/tokens/"
WANTED = {"name": "nightly", "scopes": ["plan:register", "lane:write"], "days": 30}


def make(project: Project, secret: str | None = None, **fields: Any) -> Answer:
    secret = secret or factories.make_token(project).secret
    return send("POST", f"/projects/{project.name}/tokens", {**WANTED, **fields}, secret=secret)


def signed_in(client: Client, project: Project | None, role: Role) -> Client:
    client.force_login(factories.make_user("ada", project=project, role=role))
    return client


def test_wire_knows_every_scope() -> None:
    assert list(get_args(TokenScope)) == Scope.values


def test_maintainer_makes_uses_lists_and_revokes_a_token(project: Project) -> None:
    admin = factories.make_token(project).secret
    made = make(project, admin)

    assert (made.status, made.headers["Cache-Control"]) == (201, "no-store")
    secret = made.body["token"]
    assert send("GET", "/plans", secret=secret).status == 200
    place = f"/projects/{project.name}/tokens"
    listed = send("GET", place, secret=admin).body["tokens"]
    row = next(row for row in listed if row["number"] == made.body["number"])
    assert (row["name"], row["scopes"], row["state"]) == ("nightly", WANTED["scopes"], "good")
    assert row["made_by"].startswith("token:evh_")
    assert row["last_used_at"] is not None
    assert secret.startswith(row["prefix"])
    assert secret not in str(listed)
    assert send("DELETE", f"{place}/{row['number']}", secret=admin).status == 204
    assert_problem(send("GET", "/plans", secret=secret), 401, "not-authenticated")
    assert send("GET", f"{place}/{row['number']}", secret=admin).body["state"] == "revoked"


def test_secret_is_kept_nowhere_and_each_step_is_audited(project: Project) -> None:
    admin = factories.make_token(project).secret
    made = make(project, admin)
    send("DELETE", f"/projects/{project.name}/tokens/{made.body['number']}", secret=admin)

    issued, revoked = AuditEntry.objects.filter(subject__contains="nightly").order_by("pk")
    assert (issued.action, revoked.action) == ("token.issue", "token.revoke")
    assert issued.after is not None
    assert issued.after["scopes"] == WANTED["scopes"]
    assert issued.after["expires_at"] == made.body["expires_at"]
    kept = [str(entry) for model in (Token, AuditEntry) for entry in model.objects.values()]
    assert not any(made.body["token"] in row for row in kept)


def _days_left(number: int, *, at: datetime) -> int:
    expires_at = Token.objects.get(pk=number).expires_at
    assert expires_at is not None
    return (expires_at - at).days


def test_token_ends_when_it_was_said_to(project: Project) -> None:
    at = timezone.now()
    made = make(project, days=30)
    unsaid = make(project, days=None)

    assert _days_left(made.body["number"], at=at) == 30
    assert _days_left(unsaid.body["number"], at=at) == 90
    Token.objects.filter(pk=made.body["number"]).update(expires_at=at)
    problem = assert_problem(
        send("GET", "/plans", secret=made.body["token"]), 401, "not-authenticated"
    )
    assert "expired" in problem.detail


def test_installation_says_how_long_a_token_can_be_good(
    project: Project, settings: Settings
) -> None:
    settings.TOKEN_DAYS = 20

    problem = assert_problem(make(project), 422, "invalid-token")
    assert "at most 20" in problem.detail
    assert make(project, days=20).status == 201
    assert make(project, days=None).status == 201
    first = factories.make_project().tokens.get()
    assert first.expires_at == factories.NOW + timedelta(days=20)


@pytest.mark.parametrize(
    "fields",
    [
        {"scopes": []},
        {"scopes": ["everything"]},
        {"name": ""},
        {"name": "n" * 101},
        {"name": "a\nb"},
        {"days": 0},
        {"days": 10**6},
        {"expires_at": "2099-01-01T00:00:00Z"},
    ],
)
def test_token_that_cannot_be_is_refused(project: Project, fields: Any) -> None:
    before = Token.objects.count()
    admin = factories.make_token(project).secret

    assert_problem(make(project, admin, **fields), 422, "invalid-document")
    assert Token.objects.count() == before + 1


def test_good_tokens_of_a_project_are_bounded(project: Project) -> None:
    for _ in range(MOST_TOKENS - project.tokens.count() - 1):
        factories.make_token(project)
    admin = factories.make_token(project)

    assert_problem(make(project, admin.secret), 409, "too-many-tokens")
    tokens.revoke_token(project.tokens.order_by("pk")[0], at=timezone.now())
    assert make(project, admin.secret).status == 201


def test_tokens_of_lanes_are_nobodys_to_list_or_revoke(project: Project) -> None:
    lane = factories.make_token(project, Scope.LANE_WRITE, attempt="att_1").token
    admin = factories.make_token(project).secret

    listed = send("GET", f"/projects/{project.name}/tokens", secret=admin).body["tokens"]
    answer = send("DELETE", f"/projects/{project.name}/tokens/{lane.pk}", secret=admin)

    assert lane.pk not in [row["number"] for row in listed]
    assert_problem(answer, 404, "not-found")


def test_token_of_another_project_is_not_there(project: Project) -> None:
    other = factories.make_project()
    number = make(other).body["number"]
    admin = factories.make_token(project).secret

    for method in ("GET", "DELETE"):
        answer = send(method, f"/projects/{project.name}/tokens/{number}", secret=admin)
        assert_problem(answer, 404, "not-found")
    assert Token.objects.get(pk=number).revoked_at is None


def test_list_goes_on_before_a_number(project: Project) -> None:
    for _ in range(3):
        factories.make_token(project)
    admin = factories.make_token(project).secret
    place = f"/projects/{project.name}/tokens"

    newest = send("GET", f"{place}?limit=2", secret=admin).body["tokens"]
    older = send("GET", f"{place}?limit=200&before={newest[-1]['number']}", secret=admin).body

    numbers = [row["number"] for row in [*newest, *older["tokens"]]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == len(set(numbers)) == project.tokens.count()


# The page


def test_page_makes_a_token_shows_it_once_and_revokes_it(client: Client, project: Project) -> None:
    signed_in(client, project, Role.MAINTAINER)

    shown = client.post(PAGE, {**WANTED, "name": "<b>ci</b>"})

    found = re.search(r"evh_[\w-]{43}", shown.content.decode())
    assert found is not None
    assert "no-store" in shown.headers["Cache-Control"]
    assert send("GET", "/plans", secret=found[0]).status == 200
    page = client.get(PAGE).content.decode()
    assert found[0] not in page
    assert "&lt;b&gt;ci" in page
    assert "user:ada" in page
    number = Token.objects.get(name="<b>ci</b>").pk
    assert client.post(f"{PAGE}{number}/revoke/", follow=True).status_code == 200
    assert_problem(send("GET", "/plans", secret=found[0]), 401, "not-authenticated")
    assert AuditEntry.objects.get(action="token.revoke").actor == "user:ada"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"scopes": []}, "This field is required."),
        ({"days": "366"}, "here a token is good for at most 365."),
        ({"days": "soon"}, "Enter a whole number."),
        ({"scopes": ["root"]}, "Select a valid choice."),
    ],
)
def test_page_tells_what_is_wrong(client: Client, project: Project, fields: Any, said: str) -> None:
    signed_in(client, project, Role.MAINTAINER)

    page = client.post(PAGE, {**WANTED, **fields})

    assert (page.status_code, said in page.content.decode()) == (422, True)
    assert not Token.objects.filter(name="nightly").exists()


def test_maintainers_are_told_before_a_token_ends(client: Client, project: Project) -> None:
    soon, later = timezone.now() + timedelta(days=13), timezone.now() + timedelta(days=15)
    ending = factories.make_token(project, expires_at=soon).token
    kept = factories.make_token(project, expires_at=later).token
    revoked = factories.make_token(project, expires_at=soon).token
    tokens.revoke_token(revoked, at=timezone.now())
    client.force_login(factories.make_user(project=project, role=Role.MAINTAINER))
    viewer = Client()
    viewer.force_login(factories.make_user(project=project, role=Role.VIEWER))
    notices = f"/projects/{project.name}/notices/"

    for page in (client.get(PAGE), client.get(notices)):
        (note,) = re.findall(r"within two weeks.*?</p>", page.content.decode(), flags=re.DOTALL)
        assert ending.prefix in note
        assert kept.prefix not in note
        assert revoked.prefix not in note
    assert "within two weeks" not in viewer.get(notices).content.decode()


@pytest.mark.parametrize(
    ("role", "status"), [(Role.MAINTAINER, 200), (Role.TRIAGER, 403), (Role.VIEWER, 403)]
)
def test_page_is_for_maintainers(client: Client, project: Project, role: Role, status: int) -> None:
    number = factories.make_token(project).token.pk
    signed_in(client, project, role)

    assert client.get(PAGE).status_code == status
    assert client.post(PAGE, WANTED).status_code == status
    ended = client.post(f"{PAGE}{number}/revoke/").status_code
    assert ended == (302 if status == 200 else status)
    assert (Token.objects.get(pk=number).revoked_at is not None) == (status == 200)


def test_page_is_not_there_for_strangers_and_asks_nobody_to_sign_in(
    client: Client, project: Project
) -> None:
    number = factories.make_token(project).token.pk
    assert client.get(PAGE).status_code == 302
    assert client.post(f"{PAGE}{number}/revoke/").status_code == 302

    signed_in(client, factories.make_project(), Role.MAINTAINER)

    assert client.get(PAGE).status_code == 404
    assert client.post(PAGE, WANTED).status_code == 404
    assert client.post(f"{PAGE}{number}/revoke/").status_code == 404
    assert Token.objects.get(pk=number).revoked_at is None


def test_last_use_is_written_at_most_every_ten_minutes(project: Project) -> None:
    token = factories.make_token(project).token
    at = factories.NOW

    for minutes, expected in ((0, 0), (9, 0), (11, 11)):
        tokens.touch_token(Token.objects.get(pk=token.pk), at=at + timedelta(minutes=minutes))
        used = Token.objects.get(pk=token.pk).last_used_at
        assert used == at + timedelta(minutes=expected)


def test_default_is_never_longer_than_the_longest(settings: Settings) -> None:
    settings.TOKEN_DAYS = 7

    assert static_tokens.default_days() == 7
