"""What is sent is what GitHub's own description of its API allows."""

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest

from gates.checks.models import Check
from gates.checks.operations.delivery import deliver_check
from lanes.plans.models import Plan
from tests.gates.checks.factories import (
    VERDICT,
    conclude,
    make_check,
    make_checked_project,
)
from tests.lanes.factories import NOW, make_attempt, make_plan
from tests.programs.github import GitHubStandIn

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

DESCRIPTION = Path(__file__).resolve().parents[4] / "shared/github/github_cut.openapi.json"


@pytest.fixture(scope="module")
def github() -> OpenAPI:
    if not DESCRIPTION.exists():
        pytest.skip(f"GitHub's description is not at {DESCRIPTION}")
    document: dict[str, Any] = json.loads(DESCRIPTION.read_text())
    return OpenAPI.from_dict(document)


def _deliver(plan: Plan) -> Check:
    check = make_check(plan)
    deliver_check(check, at=NOW)
    check.refresh_from_db()
    assert check.is_delivered, check.last_error
    return check


def _validate(standin: GitHubStandIn, repository: str, github: OpenAPI) -> list[str]:
    """Check every write about a repository; return the methods."""
    writes = [one for one in standin.asked(repository) if one.method != "GET"]
    for one in writes:
        request = MockRequest(
            "https://api.github.com",
            one.method.lower(),
            one.path,
            data=json.dumps(one.body).encode(),
            content_type="application/json",
        )
        github.validate_request(request)
    return [one.method for one in writes]


@pytest.mark.parametrize("conclusion", ["success", "failure", "neutral", "action_required"])
def test_life_of_a_check_is_valid(standin: GitHubStandIn, github: OpenAPI, conclusion: str) -> None:
    plan = make_plan(make_checked_project())
    _deliver(plan)
    make_attempt(plan)
    _deliver(plan)
    conclude(plan, conclusion)
    _deliver(plan)

    assert _validate(standin, plan.project.name, github) == ["POST", "PATCH", "PATCH"]


def test_cancelled_check_is_valid(standin: GitHubStandIn, github: OpenAPI) -> None:
    plan = make_plan(make_checked_project())
    Plan.objects.filter(pk=plan.pk).update(cancelled_at=NOW)
    _deliver(plan)

    assert _validate(standin, plan.project.name, github) == ["POST"]


def test_longest_check_is_cut_to_what_github_takes(standin: GitHubStandIn, github: OpenAPI) -> None:
    plan = make_plan(make_checked_project())
    subjects = [f"scenario-{i}-語語語語語語/candidate/1" for i in range(40)]
    finding = {
        "class": "evidence",
        "code": "missing",
        "effect": "failure",
        "subjects": subjects,
        "detail": "Evidence is missing.",
    }
    conclude(
        plan,
        sentences=[f"Sentence {i} with 語語語語語語語語語語." for i in range(2000)],
        findings=[finding] * 60,
        verdicts=[{**VERDICT, "category": f"category {i}"} for i in range(300)],
    )
    check = _deliver(plan)

    assert _validate(standin, plan.project.name, github) == ["POST"]
    for text in (check.summary, check.text):
        assert 60_000 < len(text.encode()) <= 65_535
        assert text.endswith(f"[the rest]({check.details_url})")


def test_description_refuses_what_it_should(github: OpenAPI) -> None:
    request = MockRequest(
        "https://api.github.com",
        "post",
        "/repos/acme/agent/check-runs",
        data=json.dumps({"name": "x", "head_sha": "a", "conclusion": "great"}).encode(),
        content_type="application/json",
    )

    with pytest.raises(OpenAPIError):
        github.validate_request(request)
