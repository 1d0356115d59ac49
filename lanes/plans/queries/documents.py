"""Suites, policies and plans as documents."""

from functools import lru_cache

from evalhub.protocol import plan as plan_documents
from evalhub.protocol.faults import parse_document
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite
from lanes.plans.models import Plan, PolicyVersion, SuiteVersion
from lanes.projects.models import Project


def current_policy(project: Project) -> PolicyVersion | None:
    """Return the project's policy; None before the first was registered."""
    policies = PolicyVersion.objects.filter(project=project, is_foreign=False)
    return policies.order_by("-current_since", "-pk").first()


def current_suite(project: Project, name: str) -> SuiteVersion | None:
    """Return the current version of a suite; None if the project has no suite of that name."""
    suites = SuiteVersion.objects.filter(project=project, name=name)
    return suites.order_by("-current_since", "-pk").first()


def policy_document(policy: PolicyVersion) -> Policy:
    return _policy_with_digest(policy.digest)


def suite_document(suite: SuiteVersion) -> Suite:
    return parse_document(Suite, suite.document)


def plan_document(plan: Plan) -> plan_documents.Plan:
    """Return the plan as the wire has it. Parsed once and kept: a digest names it for good."""
    return _plan_with_digest(plan.digest)


@lru_cache(maxsize=32)
def _plan_with_digest(digest: str) -> plan_documents.Plan:
    text = Plan.objects.values_list("document", flat=True).get(digest=digest)
    return parse_document(plan_documents.Plan, text)


@lru_cache(maxsize=32)
def _policy_with_digest(digest: str) -> Policy:
    # The same policy may be registered in two projects: one digest, one content.
    texts = PolicyVersion.objects.filter(digest=digest).values_list("document", flat=True)
    return parse_document(Policy, texts[0])
