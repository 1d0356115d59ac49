"""Typed factories for projects, people, tokens, documents, plans and attempts.

They go through the real operations, so what they make is what production makes. All are safe to
call again: what has a name gets a new one unless it is given.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from evalhub.protocol.canonical import bytes_digest, document_digest
from evalhub.protocol.scalars import rfc3339
from lanes.budget.models import Pool
from lanes.budget.operations import money as budget_operations
from lanes.plans import queries
from lanes.plans.models import Attempt, Plan, PolicyVersion, SuiteVersion
from lanes.plans.operations import attempts, documents, registration
from lanes.projects.models import Membership, Project, Role, Scope
from lanes.projects.operations import projects, tokens
from lanes.projects.operations.tokens import IssuedToken

Json = dict[str, Any]

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HEAD_SHA, TESTED_SHA, BASE_SHA = "a" * 40, "b" * 40, "c" * 40
CHECK_FINGERPRINT = bytes_digest(b"the check of resolved")
POLICY: Json = {
    "schema": "evalhub.policy/1",
    "rubrics": {
        "resolved": {
            "kind": "binary",
            "direction": "higher_is_better",
            "min_effect": 0.1,
            "gate": "block",
            "stages": ["check"],
        },
        "latency_s": {
            "kind": "tail",
            "q": 0.95,
            "rel_tol": 0.2,
            "abs_tol": 1.0,
            "ceiling": 60,
            "gate": "warn",
            "from": "result",
        },
    },
    "guards": {"required": ["agent_registered"], "max_age_minutes": 60},
    "isolation": dict.fromkeys(
        ["machine", "world", "mcp_session", "credential", "pool", "seed", "canary"], "not_claimed"
    ),
}
SCENARIOS = [("order-lookup", "orders"), ("refund-late", "refunds"), ("refund-twice", "refunds")]
"""Id and category: two categories, so two lanes."""

_numbers = count(1)


def make_project(
    name: str | None = None,
    *,
    repository_id: int | None = None,
    checks_for_unverified: bool = False,
    at: datetime = NOW,
) -> Project:
    return projects.create_project(
        name or f"acme/agent-{next(_numbers)}",
        repository_id=repository_id,
        default_branch="main",
        checks_for_unverified=checks_for_unverified,
        at=at,
    ).project


def make_token(
    project: Project,
    *scopes: Scope,
    attempt: str | None = None,
    expires_at: datetime | None = None,
    at: datetime = NOW,
) -> IssuedToken:
    """Return a token and its secret; without scopes it has `project:admin`."""
    return tokens.issue_token(
        project,
        name=f"token {next(_numbers)}",
        scopes=scopes or [Scope.PROJECT_ADMIN],
        attempt=attempt,
        expires_at=expires_at,
        at=at,
    )


def make_user(
    name: str | None = None,
    *,
    project: Project | None = None,
    role: Role = Role.VIEWER,
    password: str | None = None,
) -> User:
    """Return a person, a member of `project` where it is given."""
    user = User.objects.create_user(name or f"person-{next(_numbers)}", password=password)
    if project is not None:
        Membership.objects.create(project=project, user=user, role=role)
    return user


def make_pool(
    project: Project, name: str = "judge-main", *, limit_microusd: int = 10_000_000
) -> Pool:
    return budget_operations.put_pool(
        project, name, credential_fingerprint=None, limit_microusd=limit_microusd, at=NOW
    ).pool


def make_policy(project: Project, *, at: datetime = NOW, **fields: Any) -> PolicyVersion:
    """Register `POLICY` with some fields replaced."""
    return documents.put_policy(project, json.dumps({**POLICY, **fields}).encode(), at=at)


def scenario_document(scenario: str, category: str) -> Json:
    return {
        "id": scenario,
        "category": category,
        "digest": document_digest({"id": scenario}),
        "artifacts": [f"agent:{category}"],
        "tags": [],
        "file": None,
    }


def suite_document(
    *, scenarios: Sequence[tuple[str, str]] = tuple(SCENARIOS), **fields: Any
) -> Json:
    return {
        "schema": "evalhub.suite/1",
        "name": "support",
        "version": "2026-11-01",
        "scenarios": [scenario_document(*scenario) for scenario in scenarios],
        "cohesive": [],
        "memory_categories": [],
        **fields,
    }


def make_suite(project: Project, *, at: datetime = NOW, **fields: Any) -> SuiteVersion:
    """Register `suite_document` with some fields replaced."""
    return documents.put_suite(project, json.dumps(suite_document(**fields)).encode(), at=at)


def lane_document(
    name: str,
    category: str,
    scenarios: Sequence[str],
    *,
    arms: Sequence[str] = ("candidate",),
    epochs: int = 1,
    **fields: Any,
) -> Json:
    """Return a planned lane that runs each scenario in each arm `epochs` times."""
    return {
        "name": name,
        "kind": "ordinary",
        "categories": [category],
        "memory": False,
        "runs": [[s, arm, epoch + 1] for s in scenarios for arm in arms for epoch in range(epochs)],
        "expects": {"run": ["result", "transcript", "judge"], "lane": []},
        "environment": {"tier": "sandboxed_interactive", "simulator": None},
        "pool": None,
        "budget_microusd": None,
        "timeout_minutes": 60,
        "weight_minutes": 1,
        "jobs": 1,
        **fields,
    }


def plan_document(
    project: Project,
    *,
    policy_digest: str,
    at: datetime = NOW,
    epochs: int = 1,
    source: Json | None = None,
    scenarios: Sequence[tuple[str, str]] = tuple(SCENARIOS),
    lane: Json | None = None,
    **fields: Any,
) -> Json:
    """Return a valid plan: a lane for each category, `ordinary-1` and so on, one clean arm.

    `source` and `lane` replace fields of the source and of every lane, `fields` those of the plan.
    """
    categories = sorted({category for _, category in scenarios})
    members = {c: [s for s, category in scenarios if category == c] for c in categories}
    origin: Json = {
        "repository_id": project.repository_id,
        "event": "pull_request",
        "ref": "refs/pull/12/merge",
        "pull_request": 12,
        "head_sha": HEAD_SHA,
        "tested_sha": TESTED_SHA,
        "base_sha": BASE_SHA,
        "workflow_run_id": next(_numbers),
        "lockfile_digest": None,
        "image_digest": None,
        "input_digest": None,
        **(source or {}),
    }
    return {
        "schema": "evalhub.plan/1",
        "kind": "gate",
        "project": project.name,
        "suite": {
            "name": "support",
            "version": "2026-11-01",
            "digest": document_digest(suite_document(scenarios=scenarios)),
            "cohesive": [],
            "memory_categories": [],
        },
        "policy_digest": policy_digest,
        "source": origin,
        "arms": [
            {
                "name": "candidate",
                "subject": "support-agent",
                "model": "luna-6",
                "condition": "clean",
                "sha": origin["tested_sha"],
            }
        ],
        "conditions": {},
        "rubrics": ["latency_s", "resolved"],
        "stages": [{"rubric": "resolved", "stage": "check", "fingerprint": CHECK_FINGERPRINT}],
        "scenarios": [scenario_document(*scenario) for scenario in scenarios],
        "excluded": [],
        "lanes": [
            lane_document(f"ordinary-{i}", c, members[c], epochs=epochs, **(lane or {}))
            for i, c in enumerate(categories, start=1)
        ],
        "guards": [
            {
                "name": "agent_registered",
                "expected": "support-agent",
                "observed": ["support-agent"],
                "result": "ok",
                "checked_at": rfc3339(at),
                "fix": "pip install acme-support-agent",
            }
        ],
        "baseline_reason": None,
        "limits": {"ordinary": 8, "baseline": 2, "max_parallel": 8},
        "durations_digest": None,
        "deadline_minutes": 240,
        **fields,
    }


def make_plan(project: Project | None = None, *, at: datetime = NOW, **fields: Any) -> Plan:
    """Register a plan of a project, or of a new one; `fields` are those of `plan_document`.

    Makes the project's policy where it has none. Two plans differ by their workflow run, so that
    each has a digest of its own.
    """
    project = project or make_project()
    policy = queries.current_policy(project) or make_policy(project, at=at)
    fields.setdefault("policy_digest", policy.digest)
    return register(plan_document(project, at=at, **fields), project=project, at=at)


def register(document: Json, *, project: Project, at: datetime = NOW) -> Plan:
    """Register a plan's document with a token of the project."""
    token = make_token(project, Scope.PLAN_REGISTER, at=at).token
    return registration.register_plan(json.dumps(document).encode(), token=token, at=at).plan


def make_attempt(
    plan: Plan | None = None, lane: str = "ordinary-1", *, at: datetime = NOW
) -> Attempt:
    """Open an attempt of a lane, of a new plan where none is given."""
    return attempts.open_attempt(plan or make_plan(at=at), lane, at=at)


def make_lane_token(attempt: Attempt, *, at: datetime | None = None) -> str:
    """Return the secret of a lane token, for `Authorization: Bearer …`.

    It is issued by the clock that endpoints read unless `at` is given: it expires a day later.
    """
    return attempts.issue_lane_token(attempt, at=at or timezone.now()).secret
