"""Invitations, members, accounts: from the link to the role, and out again."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from lanes.projects.models import AuditEntry, Invitation, Membership, Project, Role, SignInLink
from lanes.projects.operations import members as member_operations
from lanes.projects.operations import sign_in
from lanes.projects.operations.members import LastMaintainerError
from tests.lanes import factories
from tests.lanes.factories import NOW

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture
def project() -> Project:
    return factories.make_project("acme/agent")


@pytest.fixture
def maintainer(project: Project) -> Client:
    client = Client()
    client.force_login(factories.make_user("ada", project=project, role=Role.MAINTAINER))
    return client


def invited(maintainer: Client, role: Role = Role.TRIAGER, **fields: str) -> str:
    """Invite somebody on the page and return the path of the link that it shows."""
    page = maintainer.post(
        "/projects/acme/agent/members/",
        {"guest": "Grace", "role": role, "days": "7", "email": "", **fields},
    )
    assert page.status_code == 200, page.content.decode()
    found = re.search(r"/invitations/evi_[\w-]+/", page.content.decode())
    assert found is not None
    return found[0]


def followed(path: str) -> Client:
    client = Client()
    response = client.get(path)
    assert (response.status_code, response.headers["Location"]) == (302, "/invitation/")
    return client


def test_invitation_makes_an_account_and_a_member(project: Project, maintainer: Client) -> None:
    guest = followed(invited(maintainer))

    page = guest.get("/invitation/").content.decode()
    response = guest.post("/invitation/", {"username": "grace", "password": PASSWORD})

    assert "user:ada offers the role triager to Grace" in page
    assert response.headers["Location"] == "/projects/acme/agent/notices/"
    membership = Membership.objects.get(user__username="grace")
    assert (membership.project, membership.role) == (project, Role.TRIAGER)
    assert guest.get("/projects/acme/agent/notices/").status_code == 200
    told = AuditEntry.objects.filter(action__startswith="invitation.").order_by("pk")
    assert [(e.action, e.actor, e.before, e.after) for e in told][1:] == [
        ("invitation.accept", "user:grace", None, "TRIAGER")
    ]


def test_invitation_binds_to_whoever_is_signed_in(project: Project, maintainer: Client) -> None:
    path = invited(maintainer)
    guest = Client()
    guest.force_login(factories.make_user("grace", project=project, role=Role.VIEWER))
    guest.get(path)

    assert "Accept as grace" in guest.get("/invitation/").content.decode()
    guest.post("/invitation/")

    assert Membership.objects.get(user__username="grace").role == Role.TRIAGER
    entry = AuditEntry.objects.get(action="invitation.accept")
    assert (entry.before, entry.after) == ("VIEWER", "TRIAGER")


def test_invitation_survives_the_sign_in(project: Project, maintainer: Client) -> None:
    factories.make_user("grace", password=PASSWORD)
    guest = followed(invited(maintainer))

    response = guest.post(
        "/sign-in/", {"username": "grace", "password": PASSWORD, "next": "/invitation/"}
    )
    guest.post(response.headers["Location"])

    assert Membership.objects.get(user__username="grace").role == Role.TRIAGER


def test_invitation_lowers_nobody(project: Project, maintainer: Client) -> None:
    path = invited(maintainer, Role.VIEWER)
    maintainer.get(path)

    assert maintainer.post("/invitation/").status_code == 409

    assert Membership.objects.get().role == Role.MAINTAINER
    assert Invitation.objects.get().accepted_at is None


def test_link_works_once(project: Project, maintainer: Client) -> None:
    path = invited(maintainer)
    first, second = followed(path), followed(path)
    first.post("/invitation/", {"username": "grace", "password": PASSWORD})

    late = second.post("/invitation/", {"username": "mallory", "password": PASSWORD})

    assert late.status_code == 410
    assert not User.objects.filter(username="mallory").exists()
    assert Client().get(path).status_code == 410


def test_ends_of_invitations_look_alike(project: Project, maintainer: Client) -> None:
    revoked, expired = invited(maintainer), invited(maintainer)
    maintainer.post(
        f"/projects/acme/agent/invitations/{Invitation.objects.order_by('pk')[0].pk}/revoke/"
    )
    Invitation.objects.filter(revoked_at=None).update(expires_at=timezone.now())

    answers = [Client().get(path) for path in (revoked, expired, "/invitations/evi_unknown/")]

    assert {answer.status_code for answer in answers} == {410}
    assert len({answer.content for answer in answers}) == 1
    assert AuditEntry.objects.filter(action="invitation.revoke", actor="user:ada").count() == 1


def test_secret_of_an_invitation_is_kept_nowhere(project: Project, maintainer: Client) -> None:
    path = invited(maintainer)
    guest = followed(path)
    secret = path.split("/")[2]

    assert secret not in maintainer.get("/projects/acme/agent/members/").content.decode()
    assert secret not in str(list(Invitation.objects.values()))
    assert secret not in str(list(AuditEntry.objects.values()))
    assert secret not in str(dict(guest.session))


def test_invitation_is_sent_where_there_is_a_mail_server(
    project: Project, maintainer: Client, settings: Settings
) -> None:
    settings.EMAIL_HOST = "mail.test"

    path = invited(maintainer, email="grace@example.org")

    (letter,) = mail.outbox
    assert letter.to == ["grace@example.org"]
    assert path in letter.body


@pytest.mark.parametrize(
    ("username", "password", "said"),
    [
        ("ADA", PASSWORD, "somebody of that name already"),
        ("graçe", PASSWORD, "Enter a valid username"),
        ("grace", "short", "at least 12 characters"),
        ("grace", "password1234", "too common"),
    ],
)
def test_accounts_that_cannot_be_made_leave_the_invitation(
    project: Project, maintainer: Client, username: str, password: str, said: str
) -> None:
    guest = followed(invited(maintainer))

    response = guest.post("/invitation/", {"username": username, "password": password})

    assert response.status_code == 422
    assert said in response.content.decode()
    assert User.objects.count() == 1
    assert Invitation.objects.get().accepted_at is None


def test_role_is_changed_and_taken_at_once(project: Project, maintainer: Client) -> None:
    grace = factories.make_user("grace", project=project)
    client = Client()
    client.force_login(grace)
    place = f"/projects/acme/agent/members/{Membership.objects.get(user=grace).pk}"

    maintainer.post(f"{place}/role/", {"role": "MAINTAINER"})
    assert client.get("/projects/acme/agent/members/").status_code == 200
    maintainer.post(f"{place}/remove/")
    assert client.get("/projects/acme/agent/notices/").status_code == 404

    told = AuditEntry.objects.filter(action__startswith="member.").order_by("pk")
    assert [(e.action, e.actor, e.subject, e.before, e.after) for e in told] == [
        ("member.role", "user:ada", "grace", "VIEWER", "MAINTAINER"),
        ("member.remove", "user:ada", "grace", "MAINTAINER", None),
    ]


def test_last_maintainer_stays(project: Project, maintainer: Client) -> None:
    closed = factories.make_user("closed", project=project, role=Role.MAINTAINER)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    place = f"/projects/acme/agent/members/{Membership.objects.get(user__username='ada').pk}"

    lowered = maintainer.post(f"{place}/role/", {"role": "VIEWER"})
    removed = maintainer.post(f"{place}/remove/")

    assert (lowered.status_code, removed.status_code) == (409, 409)
    assert "ada is the last maintainer" in removed.content.decode()
    assert not AuditEntry.objects.filter(action__startswith="member.").exists()


def test_stale_membership_counts_as_it_is_now(project: Project) -> None:
    ada, grace = (
        Membership.objects.get(
            user=factories.make_user(name, project=project, role=Role.MAINTAINER)
        )
        for name in ("ada", "grace")
    )
    member_operations.change_role(grace, Role.VIEWER, actor="user:ada", at=NOW)

    with pytest.raises(LastMaintainerError):
        # Read before the other one was lowered, as by two pages at once.
        member_operations.remove_member(ada, actor="user:grace", at=NOW)


def test_members_of_other_projects_cannot_be_reached(project: Project, maintainer: Client) -> None:
    other = factories.make_project()
    stranger = factories.make_user(project=other, role=Role.MAINTAINER)
    number = Membership.objects.get(user=stranger).pk

    assert maintainer.post(f"/projects/acme/agent/members/{number}/remove/").status_code == 404
    assert Membership.objects.filter(pk=number).exists()


def sessions_of(name: str, count: int) -> list[Client]:
    clients = [Client() for _ in range(count)]
    for client in clients:
        client.post("/sign-in/", {"username": name, "password": PASSWORD})
        assert SESSION_KEY in client.session
    return clients


def test_another_password_ends_the_other_sessions() -> None:
    factories.make_user("ada", password=PASSWORD)
    here, there = sessions_of("ada", 2)

    wrong = here.post("/account/", {"old": "wrong", "password": "another horse battery"})
    weak = here.post("/account/", {"old": PASSWORD, "password": "short"})
    done = here.post("/account/", {"old": PASSWORD, "password": "another horse battery"})

    assert (wrong.status_code, weak.status_code, done.status_code) == (422, 422, 302)
    assert here.get("/account/").status_code == 200
    assert there.get("/account/").status_code == 302
    assert User.objects.get().check_password("another horse battery")
    assert AuditEntry.objects.filter(action="user.password").count() == 1


def test_first_password_of_whoever_came_by_a_link() -> None:
    client = Client()
    client.post(f"/sign-in/link/{sign_in.create_first_sign_in_link(timezone.now())}/")
    unused = sign_in.create_first_sign_in_link(timezone.now())

    response = client.post("/account/", {"password": PASSWORD})

    assert response.status_code == 302
    assert User.objects.get().check_password(PASSWORD)
    assert Client().post(f"/sign-in/link/{unused}/").status_code == 410


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_sign_out_everywhere(password: str | None) -> None:
    user = factories.make_user("ada", password=password)
    here, there = Client(), Client()
    here.force_login(user)
    there.force_login(user)
    SignInLink.objects.create(
        user=user, digest="d", created_at=NOW, expires_at=timezone.now() + timedelta(days=1)
    )

    here.post("/account/sign-out/", {"old": password or ""})

    assert [client.get("/account/").status_code for client in (here, there)] == [302, 302]
    assert SignInLink.objects.get().used_at is not None
    user.refresh_from_db()
    assert user.has_usable_password() == (password is not None)
    if password is not None:
        assert user.check_password(password)


def test_password_is_not_found_out_in_an_open_session(settings: Settings) -> None:
    settings.SIGN_IN_REQUESTS = 2
    client = Client()
    client.force_login(factories.make_user("ada", password=PASSWORD))

    tries = [client.post("/account/sign-out/", {"old": f"guess {n}"}) for n in range(3)]

    assert [one.status_code for one in tries] == [422, 422, 429]
