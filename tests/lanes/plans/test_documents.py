"""Suites and policies: read as they were sent, kept in every version."""

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml

from evalhub.protocol.canonical import document_digest
from evalhub.web.errors import InvalidDocumentError
from lanes.plans import queries
from lanes.plans.models import PolicyVersion, SuiteVersion
from lanes.plans.operations import documents
from lanes.plans.operations.documents import Notation
from lanes.projects.models import AuditEntry
from tests.lanes import factories
from tests.lanes.factories import NOW, POLICY

pytestmark = pytest.mark.django_db


def put_yaml(text: str) -> PolicyVersion:
    return documents.put_policy(
        factories.make_project(), text.encode(), notation=Notation.YAML, at=NOW
    )


def yaml_of(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False)


def test_yaml_and_json_of_one_policy_have_one_digest() -> None:
    project = factories.make_project()

    as_json = factories.make_policy(project)
    as_yaml = put_yaml(yaml_of(POLICY))

    assert as_json.digest == as_yaml.digest == document_digest(POLICY)
    assert queries.policy_document(as_yaml).rubrics["latency_s"].source == "result"


def test_digest_is_over_what_was_sent_not_over_defaults() -> None:
    explicit = factories.make_policy(factories.make_project(), alpha=0.05)
    silent = factories.make_policy(factories.make_project())

    assert explicit.digest != silent.digest


def test_yaml_dates_stay_text() -> None:
    document = yaml_of(factories.suite_document()).replace("'2026-11-01'", "2026-11-01")
    assert "version: 2026-11-01" in document

    suite = documents.put_suite(
        factories.make_project(), document.encode(), notation=Notation.YAML, at=NOW
    )

    assert suite.digest == document_digest(factories.suite_document())
    assert queries.suite_document(suite).version == "2026-11-01"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema: [", "not YAML"),
        ("a: &x [1]\nb: *x", "the alias \\*x in line 2"),
        ("schema: evalhub.policy/1\nschema: evalhub.policy/1", "'schema' again in line 2"),
        ("1: 2", "the key 1 in line 1"),
        ("a: !!python/object/apply:os.getcwd []", "not YAML"),
        ("a: !!binary aGk=", "not YAML"),
        ("a: !!set {x}", "not YAML"),
        ("alpha: .nan", "nan"),
        ("- a\n- b", "expected"),
        ("", "expected"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("[" * 65 + "]" * 65, "more than 64 levels in line 1"),
        ("[" * 100_000 + "]" * 100_000, "levels|nesting depth"),
        ("- " * 100_000 + "a", "more than 64 levels in line 1"),
    ],
)
def test_yaml_that_is_no_policy_is_named(text: str, told: str) -> None:
    with pytest.raises(InvalidDocumentError, match=told) as refusal:
        put_yaml(text)

    assert refusal.value.detail.startswith("The policy is not valid: ")
    assert refusal.value.detail.endswith(".")
    assert PolicyVersion.objects.count() == 0


def test_yaml_that_is_not_text_is_named() -> None:
    with pytest.raises(InvalidDocumentError, match="not YAML"):
        documents.put_policy(
            factories.make_project(), b"\xff\xfe\x00", notation=Notation.YAML, at=NOW
        )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"null", "null"),
        (json.dumps({**POLICY, "alpha": float("nan")}).encode(), "alpha"),
        (json.dumps({**POLICY, "alpha": "0.05"}).encode(), "/alpha"),
        (json.dumps({**POLICY, "weather": "fine"}).encode(), "/weather"),
        (json.dumps(POLICY).encode()[:-1] + b', "alpha": 0.1, "alpha": 0.05}', "'alpha' twice"),
    ],
)
def test_json_that_is_no_policy_is_named(body: bytes, told: str) -> None:
    with pytest.raises(InvalidDocumentError, match=told):
        documents.put_policy(factories.make_project(), body, at=NOW)

    assert PolicyVersion.objects.count() == 0


def test_every_fault_is_told() -> None:
    with pytest.raises(InvalidDocumentError) as refusal:
        factories.make_policy(factories.make_project(), alpha=2, gate_by="moon", extra=1)

    assert [fault.pointer for fault in refusal.value.faults] == ["/alpha", "/gate_by", "/extra"]


def test_every_version_is_kept_and_the_newest_is_current() -> None:
    project = factories.make_project()
    first = factories.make_policy(project)
    second = factories.make_policy(project, alpha=0.01, at=NOW + timedelta(hours=1))

    assert PolicyVersion.objects.filter(project=project).count() == 2
    assert queries.current_policy(project) == second
    again = factories.make_policy(project, at=NOW + timedelta(hours=2))
    assert again == first
    assert queries.current_policy(project) == first
    assert again.registered_at == NOW


def test_putting_the_current_version_again_changes_nothing() -> None:
    project = factories.make_project()
    factories.make_suite(project)
    factories.make_suite(project, at=NOW + timedelta(hours=1))
    factories.make_policy(project)
    factories.make_policy(project, at=NOW + timedelta(hours=1))

    assert SuiteVersion.objects.get().current_since == NOW
    assert PolicyVersion.objects.get().current_since == NOW
    assert AuditEntry.objects.filter(action__in=["suite.put", "policy.put"]).count() == 2


def test_suites_of_two_names_are_both_current() -> None:
    project = factories.make_project()
    support = factories.make_suite(project)
    billing = factories.make_suite(project, name="billing", at=NOW + timedelta(hours=1))

    assert queries.current_suite(project, "support") == support
    assert queries.current_suite(project, "billing") == billing
    assert queries.current_suite(project, "unknown") is None


def test_change_is_audited_with_both_digests() -> None:
    project = factories.make_project()
    first = factories.make_policy(project)
    second = factories.make_policy(project, alpha=0.01, at=NOW + timedelta(hours=1))

    entry = AuditEntry.objects.filter(action="policy.put").latest("pk")
    assert (entry.before, entry.after) == (first.digest, second.digest)
