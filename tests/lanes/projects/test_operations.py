"""Projects, tokens, sign-in links and the audit."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import RequestFactory

from evalhub.web.errors import ForbiddenError, NotFoundError
from lanes.projects.models import AuditEntry, Project, Role, Scope, SignInLink, Token
from lanes.projects.operations import projects, sign_in, tokens
from lanes.projects.operations.projects import InvalidProjectError, ProjectExistsError
from lanes.projects.operations.sign_in import NoSuperuserError, UnusableLinkError
from lanes.projects.queries import actors, members
from lanes.projects.queries import projects as project_queries
from lanes.projects.queries import tokens as token_queries
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db


def test_create_project_gives_a_first_admin_token() -> None:
    created = projects.create_project(
        "acme/support-agent",
        repository_id=1296269,
        default_branch="main",
        checks_for_unverified=True,
        at=NOW,
    )

    token = token_queries.token_with_secret(created.secret)
    assert token is not None
    assert token.project == created.project
    assert token.scopes == [Scope.PROJECT_ADMIN]
    assert len(created.project.salt) == 64
    assert list(AuditEntry.objects.order_by("pk").values_list("action", "actor")) == [
        ("project.create", "system"),
        ("token.issue", "system"),
    ]


@pytest.mark.parametrize("name", ["", "support-agent", "a/b/c", "acme/", "acme/a b", "acme/x\n"])
def test_create_project_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(InvalidProjectError, match="expected OWNER/NAME"):
        factories.make_project(name) if name else projects.create_project(
            name, repository_id=None, default_branch="main", checks_for_unverified=False, at=NOW
        )

    assert Project.objects.count() == 0


def test_create_project_refuses_an_empty_branch() -> None:
    with pytest.raises(InvalidProjectError, match="default branch was ''"):
        projects.create_project(
            "acme/agent", repository_id=None, default_branch="", checks_for_unverified=False, at=NOW
        )


def test_project_is_found_by_its_name() -> None:
    project = factories.make_project("acme/agent")

    assert project_queries.project_named("acme/agent") == project
    with pytest.raises(NotFoundError, match="no project 'acme/agents'"):
        project_queries.project_named("acme/agents")


def test_audit_names_a_person_by_the_name_they_sign_in_with(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = factories.make_user("ada")

    assert actors.actor_of(request) == "user:ada"


def test_create_project_refuses_a_name_or_repository_that_is_taken() -> None:
    factories.make_project("acme/one", repository_id=7)

    with pytest.raises(ProjectExistsError):
        factories.make_project("acme/one")
    with pytest.raises(ProjectExistsError):
        factories.make_project("acme/two", repository_id=7)

    assert Project.objects.count() == 1
    assert Token.objects.count() == 1


def test_revoking_a_token_twice_is_audited_once() -> None:
    token = factories.make_token(factories.make_project()).token
    tokens.revoke_token(token, at=NOW, actor="user:ada")
    tokens.revoke_token(token, at=NOW + timedelta(hours=1), actor="user:bob")

    assert token.revoked_at == NOW
    assert AuditEntry.objects.filter(action="token.revoke").get().actor == "user:ada"


def test_audit_holds_no_secret() -> None:
    project = factories.make_project()
    secret = factories.make_token(project).secret

    rows = str(list(AuditEntry.objects.values()))
    assert secret not in rows
    assert project.salt not in rows


def test_first_link_creates_the_superuser_without_password() -> None:
    secret = sign_in.create_first_sign_in_link(NOW)

    user = User.objects.get()
    assert (user.username, user.is_superuser, user.has_usable_password()) == ("admin", True, False)
    assert sign_in.sign_in_with_link(secret, at=NOW) == user
    assert AuditEntry.objects.get(action="user.sign_in").actor == "user:admin"


def test_second_link_is_for_the_same_superuser() -> None:
    sign_in.create_first_sign_in_link(NOW)
    secret = sign_in.create_first_sign_in_link(NOW)

    assert sign_in.sign_in_with_link(secret, at=NOW).username == "admin"
    assert User.objects.count() == 1


def test_no_link_where_users_have_no_superuser() -> None:
    factories.make_user("ada")

    with pytest.raises(NoSuperuserError):
        sign_in.create_first_sign_in_link(NOW)

    assert SignInLink.objects.count() == 0


def test_link_signs_in_once() -> None:
    secret = sign_in.create_first_sign_in_link(NOW)
    sign_in.sign_in_with_link(secret, at=NOW)

    with pytest.raises(UnusableLinkError):
        sign_in.sign_in_with_link(secret, at=NOW)


def test_link_ends_after_a_day() -> None:
    secret = sign_in.create_first_sign_in_link(NOW)

    with pytest.raises(UnusableLinkError):
        sign_in.sign_in_with_link(secret, at=NOW + timedelta(hours=24))


def test_link_of_a_disabled_person_is_worth_nothing() -> None:
    secret = sign_in.create_first_sign_in_link(NOW)
    User.objects.update(is_active=False)

    with pytest.raises(UnusableLinkError):
        sign_in.sign_in_with_link(secret, at=NOW)


@pytest.mark.django_db(transaction=True)
def test_link_pressed_twice_at_once_signs_in_once() -> None:
    secret = sign_in.create_first_sign_in_link(NOW)

    outcomes = at_once([lambda: sign_in.sign_in_with_link(secret, at=NOW)] * 4)

    assert sum(isinstance(outcome, User) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, UnusableLinkError) for outcome in outcomes) == 3


def test_member_sees_own_projects_and_superuser_all() -> None:
    mine, other = factories.make_project("acme/mine"), factories.make_project("acme/other")
    ada = factories.make_user("ada", project=mine)
    root = User.objects.create_superuser("root")

    assert list(members.projects_of(ada)) == [mine]
    assert list(members.projects_of(root)) == [mine, other]
    assert members.role_of(root, other) is Role.MAINTAINER


def test_require_role_hides_the_project_from_strangers() -> None:
    project = factories.make_project()
    viewer = factories.make_user(project=project)
    maintainer = factories.make_user(project=project, role=Role.MAINTAINER)

    members.require_role(maintainer, project, Role.TRIAGER)
    with pytest.raises(ForbiddenError, match="takes the role triager"):
        members.require_role(viewer, project, Role.TRIAGER)
    with pytest.raises(NotFoundError):
        members.require_role(factories.make_user(), project, Role.VIEWER)


def test_disabled_superuser_has_no_role() -> None:
    root = User.objects.create_superuser("root", is_active=False)

    assert members.role_of(root, factories.make_project()) is None
    assert not members.projects_of(root).exists()
    assert not members.projects_of(AnonymousUser()).exists()
