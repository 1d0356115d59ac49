"""Trusted publishers: made and removed by maintainers, on the page, through the API and by the command."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from evalhub.web.errors import DomainError
from lanes.projects.models import (
    AuditEntry,
    Project,
    Role,
    Scope,
    SpeakerRefusal,
    TrustedPublisher,
)
from lanes.projects.operations import refusals
from lanes.projects.operations.publishers import MOST_PUBLISHERS
from tests.lanes import factories
from tests.lanes.projects.identities import make_publisher, project
from tests.lanes.wire import Answer, assert_problem, send

__all__ = ["project"]

pytestmark = pytest.mark.django_db

WANTED = {
    "repository_id": 74,
    "repository_owner_id": 65,
    "workflow": ".github/workflows/evals.yml",
}
PAGE = "/projects/octo-org/octo-repo/publishers/"


def post(project: Project, secret: str | None = None, **fields: Any) -> Answer:
    secret = secret or factories.make_token(project).secret
    return send("POST", f"/projects/{project.name}/publishers", {**WANTED, **fields}, secret=secret)


def signed_in(client: Client, project: Project | None, role: Role) -> Client:
    client.force_login(factories.make_user(project=project, role=role))
    return client


def test_maintainer_trusts_a_workflow_and_trusts_it_no_longer(project: Project) -> None:
    admin = factories.make_token(project).secret
    made = post(project, admin, refs=["refs/heads/main"], may_put_documents=True)

    assert made.status == 201
    place = f"/projects/{project.name}/publishers/{made.body['number']}"
    told = send("GET", place, secret=admin).body
    assert told == made.body
    assert (told["workflow"], told["refs"]) == (WANTED["workflow"], ["refs/heads/main"])
    assert send("DELETE", place, secret=admin).status == 204
    assert_problem(send("GET", place, secret=admin), 404, "not-found")
    listed = send("GET", f"/projects/{project.name}/publishers", secret=admin)
    assert listed.body == {"publishers": []}
    actions = AuditEntry.objects.filter(action__startswith="publisher").order_by("pk")
    trusted, removed = actions
    assert trusted.before is None
    assert trusted.after is not None
    assert trusted.after["workflow"] == WANTED["workflow"]
    assert removed.before == trusted.after
    assert trusted.actor.startswith("token:evh_")


def test_settings_of_a_publisher_change_in_place(project: Project) -> None:
    first = post(project)

    again, changed = post(project), post(project, refs=["refs/heads/main"])

    assert [first.status, again.status, changed.status] == [201, 200, 200]
    assert first.body["number"] == again.body["number"] == changed.body["number"]
    assert TrustedPublisher.objects.get().refs == ["refs/heads/main"]
    assert AuditEntry.objects.filter(action="publisher.trust").count() == 2


def test_removed_publisher_may_be_made_anew(project: Project) -> None:
    admin = factories.make_token(project).secret
    number = post(project).body["number"]
    send("DELETE", f"/projects/{project.name}/publishers/{number}", secret=admin)

    assert post(project).status == 201
    assert TrustedPublisher.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"workflow": "evals.yml"}, 422, "invalid-publisher"),
        ({"workflow": ".github/workflows/../../x.yml"}, 422, "invalid-publisher"),
        ({"workflow": ".github/workflows/x.yml@refs/heads/main"}, 422, "invalid-publisher"),
        ({"reusable_workflow": "x.yml"}, 422, "invalid-publisher"),
        ({"reusable_workflow": "o/r/.github/workflows/x.yml"}, 422, "invalid-publisher"),
        ({"refs": ["main"]}, 422, "invalid-publisher"),
        ({"refs": ["refs/heads/[ab]"]}, 422, "invalid-publisher"),
        ({"refs": ["refs/heads/a..b"]}, 422, "invalid-publisher"),
        ({"environment": "e" * 256}, 422, "invalid-publisher"),
        ({"environment": "e\n"}, 422, "invalid-document"),
        ({"repository_id": "74"}, 422, "invalid-document"),
        ({"repository_id": -1}, 422, "invalid-document"),
        ({"refs": ["refs/heads/a"] * 51}, 422, "invalid-document"),
        ({"issuer": "https://evil.example"}, 422, "invalid-document"),
        ({"repository_id": 75}, 409, "publisher-conflict"),
    ],
)
def test_publisher_that_cannot_be_is_refused(
    project: Project, fields: Any, status: int, code: str
) -> None:
    assert_problem(post(project, **fields), status, code)

    assert TrustedPublisher.objects.count() == 0


def test_project_learns_its_repository_once(project: Project) -> None:
    younger = factories.make_project("octo-org/other")

    assert_problem(post(younger), 409, "publisher-conflict")
    assert post(younger, repository_id=80).status == 201

    younger.refresh_from_db()
    assert younger.repository_id == 80
    assert AuditEntry.objects.get(action="project.repository").after == {"repository_id": 80}
    assert_problem(post(younger, repository_id=81), 409, "publisher-conflict")


def test_publishers_of_a_project_are_bounded(project: Project) -> None:
    TrustedPublisher.objects.bulk_create(
        TrustedPublisher(
            project=project, created_at=factories.NOW, **{**WANTED, "workflow": f"w{number}"}
        )
        for number in range(MOST_PUBLISHERS)
    )

    assert_problem(post(project), 409, "publisher-conflict")


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PLAN_REGISTER, Scope.DOCUMENT_WRITE])
def test_publishers_are_the_maintainers_concern(project: Project, scope: Scope) -> None:
    secret = factories.make_token(project, scope).secret
    place = f"/projects/{project.name}/publishers"

    assert_problem(post(project, secret), 403, "forbidden")
    assert_problem(send("GET", place, secret=secret), 403, "forbidden")
    stranger = factories.make_token(factories.make_project()).secret
    assert_problem(post(project, stranger), 403, "forbidden")


def test_publisher_of_another_project_is_not_there(project: Project) -> None:
    number = post(project).body["number"]
    other = factories.make_project()
    secret = factories.make_token(other).secret

    for method in ("GET", "DELETE"):
        answer = send(method, f"/projects/{other.name}/publishers/{number}", secret=secret)
        assert_problem(answer, 404, "not-found")
    assert TrustedPublisher.objects.get().removed_at is None


# The page


def test_page_trusts_a_workflow_and_removes_it(client: Client, project: Project) -> None:
    signed_in(client, project, Role.MAINTAINER)
    form = {**WANTED, "refs": "refs/heads/main\n refs/pull/*/merge \n", "may_put_documents": "on"}

    made = client.post(PAGE, form, follow=True)

    assert "may speak for the project" in made.content.decode()
    publisher = TrustedPublisher.objects.get()
    assert publisher.refs == ["refs/heads/main", "refs/pull/*/merge"]
    assert publisher.may_put_documents
    assert AuditEntry.objects.get(action="publisher.trust").actor.startswith("user:")
    removed = client.post(f"{PAGE}{publisher.pk}/remove/", follow=True)
    assert "trusted no longer" in removed.content.decode()
    assert "No workflow is trusted yet" in removed.content.decode()


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"workflow": "evals.yml"}, 422, "expected .github/workflows/FILE.yml"),
        ({"repository_id": "75"}, 409, "The project is repository 74, not 75."),
        ({"repository_id": "x"}, 422, "Enter a whole number."),
        ({"refs": "\n".join(["refs/heads/a"] * 51)}, 422, "At most 50 lines"),
        ({"workflow": ""}, 422, "This field is required."),
    ],
)
def test_page_tells_what_is_wrong(
    client: Client, project: Project, fields: Any, status: int, said: str
) -> None:
    signed_in(client, project, Role.MAINTAINER)

    page = client.post(PAGE, {**WANTED, **fields})

    assert (page.status_code, said in page.content.decode()) == (status, True)
    assert TrustedPublisher.objects.count() == 0


def test_page_shows_who_was_refused_as_text(client: Client, project: Project) -> None:
    class HostileError(DomainError):
        status, code = 403, "identity-test"

    refusals.record_refusal(
        HostileError("<script>alert(1)</script>"),
        claims={"repository": project.name, "actor": "<img src=x>\x00\ud800\x1b[31m", "sub": "x"},
        is_signed=False,
        address="203.0.113.7",
        at=timezone.now(),
    )
    signed_in(client, project, Role.MAINTAINER)

    page = client.get(PAGE).content.decode()

    assert "identity-test" in page
    assert "unsigned" in page
    assert "203.0.113.7" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("role", "status"), [(Role.MAINTAINER, 200), (Role.TRIAGER, 403), (Role.VIEWER, 403)]
)
def test_page_is_for_maintainers(client: Client, project: Project, role: Role, status: int) -> None:
    publisher = make_publisher(project)
    signed_in(client, project, role)

    assert client.get(PAGE).status_code == status
    if status != 200:
        assert client.post(PAGE, WANTED).status_code == status
        assert client.post(f"{PAGE}{publisher.pk}/remove/").status_code == status
        publisher.refresh_from_db()
        assert publisher.removed_at is None


def test_page_is_not_there_for_strangers_and_asks_nobody_to_sign_in(
    client: Client, project: Project
) -> None:
    assert client.get(PAGE).status_code == 302
    signed_in(client, None, Role.VIEWER)
    assert client.get(PAGE).status_code == 404


def test_page_costs_the_same_with_many(
    client: Client, project: Project, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        make_publisher(project, environment=f"e{number}")
    signed_in(client, project, Role.MAINTAINER)

    with django_assert_max_num_queries(9):
        assert client.get(PAGE).status_code == 200


# Who was refused is bounded


def test_refusals_make_room_and_inventions_push_out_nothing_signed(project: Project) -> None:
    class StrangerError(DomainError):
        status, code = 403, "identity-stranger"

    claims = {"repository_id": "74", "repository": "x"}
    refusals.record_refusal(
        StrangerError("First."), claims=claims, is_signed=True, address="", at=factories.NOW
    )
    SpeakerRefusal.objects.bulk_create(
        SpeakerRefusal(project=project, at=factories.NOW, code="x", detail="x", is_signed=False)
        for _ in range(refusals.MOST_KEPT)
    )

    refusals.record_refusal(
        StrangerError("Last."), claims=claims, is_signed=False, address="", at=factories.NOW
    )

    unsigned = SpeakerRefusal.objects.filter(project=project, is_signed=False)
    assert unsigned.count() == refusals.MOST_KEPT
    assert unsigned.latest("pk").detail == "Last."
    assert SpeakerRefusal.objects.get(is_signed=True).detail == "First."


# The command


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("trust_publisher", *arguments, stdout=out)
    return out.getvalue()


def test_command_trusts_lists_and_removes(project: Project) -> None:
    made = command(
        project.name,
        *("--owner-id", "65", "--workflow", ".github/workflows/evals.yml"),
        *("--ref", "refs/heads/main", "--may-put-documents"),
    )

    publisher = TrustedPublisher.objects.get()
    assert made == (
        f"{publisher.pk}: .github/workflows/evals.yml of repository 74, refs/heads/main\n"
    )
    assert publisher.may_put_documents
    assert command(project.name) == made
    assert command(project.name, "--remove", str(publisher.pk)) == ""
    assert AuditEntry.objects.filter(action="publisher.remove", actor="system").count() == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["octo-org/none"], "There is no project"),
        (["octo-org/octo-repo", "--workflow", "x.yml", "--owner-id", "65"], "expected .github"),
        (["octo-org/octo-repo", "--workflow", ".github/workflows/x.yml"], "--owner-id was None"),
        (["octo-org/octo-repo", "--remove", "7"], "has no trusted publisher 7"),
    ],
)
def test_command_says_what_is_wrong(project: Project, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        command(*arguments)
