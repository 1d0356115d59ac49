"""The commands that begin everything."""

import io
import json

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from lanes.projects.models import Project
from lanes.projects.queries import tokens
from tests.lanes import factories

pytestmark = pytest.mark.django_db


def output_of(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_create_project_prints_the_first_token() -> None:
    lines = output_of("create_project", "acme/agent", "--repository-id", "7").splitlines()

    token = tokens.token_with_secret(lines[-1])
    assert token is not None
    assert token.project == Project.objects.get(name="acme/agent", repository_id=7)
    assert not token.project.checks_for_unverified


def test_create_project_prints_json() -> None:
    answer = json.loads(
        output_of("create_project", "acme/agent", "--checks-for-unverified", "--json")
    )

    assert answer["project"] == "acme/agent"
    assert tokens.token_with_secret(answer["token"]) is not None
    assert Project.objects.get().checks_for_unverified


def test_create_project_says_that_the_name_is_taken() -> None:
    factories.make_project("acme/agent")

    with pytest.raises(CommandError, match="exists already"):
        output_of("create_project", "acme/agent")


def test_sign_in_link_prints_an_address(settings: Settings) -> None:
    settings.PUBLIC_URL = "https://evalhub.example"

    url = json.loads(output_of("sign_in_link", "--json"))["url"]

    assert url.startswith("https://evalhub.example/sign-in/link/")
    assert url.endswith("/")


def test_sign_in_link_says_what_is_absent() -> None:
    factories.make_user()

    with pytest.raises(CommandError, match="createsuperuser"):
        output_of("sign_in_link")
