"""CI jobs that speak to the server in this process: an issuer, a trusted publisher, tokens of jobs."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings

from evalhub.protocol.identity import JWT_TYPE, TOKEN_EXCHANGE, PublisherSettings
from lanes.projects.models import Project, TrustedPublisher
from lanes.projects.operations import publishers
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.wire import Answer, send
from tests.programs.issuer import Issuer, job_claims, serving_issuer

REPOSITORY, OWNER = 74, 65


@pytest.fixture
def issuer(settings: Settings) -> Iterator[Issuer]:
    """Run an issuer of this test alone, and have the server trust it."""
    with serving_issuer() as running:
        settings.OIDC_ISSUER = running.url
        settings.OIDC_AUDIENCE = "https://evalhub.example"
        yield running


@pytest.fixture
def project() -> Project:
    return factories.make_project("octo-org/octo-repo", repository_id=REPOSITORY)


def make_publisher(project: Project, **fields: Any) -> TrustedPublisher:
    wanted = {
        "repository_id": REPOSITORY,
        "repository_owner_id": OWNER,
        "workflow": ".github/workflows/evals.yml",
        **fields,
    }
    return publishers.trust_publisher(
        project, PublisherSettings(**wanted), actor="user:ada", at=NOW
    ).publisher


def identity_of(issuer: Issuer, claims: dict[str, Any] | None = None, **more: Any) -> str:
    """Return an identity token that is good now; `more` is as of `Issuer.signed`."""
    more.setdefault("at", int(timezone.now().timestamp()))
    more.setdefault("audience", django_settings.OIDC_AUDIENCE)
    return issuer.signed(claims or job_claims(), **more)


def exchange(token: str, **fields: str) -> Answer:
    """Ask for a run token; `fields` replace those of the form."""
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": token,
        "subject_token_type": JWT_TYPE,
        **fields,
    }
    body = urlencode(form).encode()
    return send("POST", "/token", body, content_type="application/x-www-form-urlencoded")


def run_token(issuer: Issuer, claims: dict[str, Any] | None = None) -> str:
    """Return the secret of a run token of the job with these claims."""
    answer = exchange(identity_of(issuer, claims))
    assert answer.status == 200, answer.body
    return str(answer.body["access_token"])
