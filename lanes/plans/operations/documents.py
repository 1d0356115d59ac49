"""Suites and policies: reading JSON or YAML as it was sent, keeping every version."""

import json
from collections.abc import Hashable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeVar

import yaml
from django.db import transaction
from pydantic import BaseModel

from evalhub.protocol.canonical import Digest, bytes_digest, canonical_bytes
from evalhub.protocol.faults import DocumentError, Fault, parse_document
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite
from evalhub.web.errors import InvalidDocumentError
from lanes.plans import queries
from lanes.plans.models import PolicyVersion, SuiteVersion
from lanes.projects.models import Project
from lanes.projects.operations import audit

_DEEPEST = 64


class Notation(StrEnum):
    """How a document was written down."""

    JSON = "JSON"
    YAML = "YAML"


class ReadDocument(NamedTuple):
    """A document as it was sent: its RFC 8785 text and the digest that names it."""

    text: str
    digest: Digest


def read_document(
    model: type[BaseModel], body: bytes, *, notation: Notation = Notation.JSON, what: str
) -> ReadDocument:
    """Check that `body` is a document of the kind `model`, and name it.

    The digest is taken over what was sent, not over what the model made of it: a field that was
    left out stays left out.

    Raises:
        InvalidDocumentError: with every fault; `what` names the kind of document in its sentence.
    """
    try:
        if notation is Notation.YAML:
            canonical = canonical_bytes(_yaml(body))
        else:
            # First: the strict parser bounds the depth of what the lenient one reads after it.
            parse_document(model, body)
            canonical = canonical_bytes(_json(body))
        parse_document(model, canonical)
    except DocumentError as error:
        raise InvalidDocumentError.of(error, what=what) from None
    return ReadDocument(canonical.decode(), bytes_digest(canonical))


@transaction.atomic
def put_suite(
    project: Project,
    body: bytes,
    *,
    at: datetime,
    notation: Notation = Notation.JSON,
    actor: str = audit.SYSTEM,
) -> SuiteVersion:
    """Register a version of a suite and make it current. Every version is kept.

    Raises:
        InvalidDocumentError: with every fault of the document.
    """
    document = read_document(Suite, body, notation=notation, what="suite")
    name = parse_document(Suite, document.text).name
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    current = queries.current_suite(project, name)
    if current is not None and current.digest == document.digest:
        return current
    since = _after(current, at=at)
    suite, _ = SuiteVersion.objects.update_or_create(
        project=project,
        name=name,
        digest=document.digest,
        defaults={"current_since": since},
        create_defaults={"document": document.text, "registered_at": at, "current_since": since},
    )
    _note_change("suite.put", name, current, suite, actor=actor, at=at)
    return suite


@transaction.atomic
def put_policy(
    project: Project,
    body: bytes,
    *,
    at: datetime,
    notation: Notation = Notation.JSON,
    actor: str = audit.SYSTEM,
) -> PolicyVersion:
    """Register a version of the policy and make it current. Every version is kept.

    Raises:
        InvalidDocumentError: with every fault of the document.
    """
    document = read_document(Policy, body, notation=notation, what="policy")
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    current = queries.current_policy(project)
    if current is not None and current.digest == document.digest:
        return current
    since = _after(current, at=at)
    policy, _ = PolicyVersion.objects.update_or_create(
        project=project,
        digest=document.digest,
        # It may have come with a foreign plan before.
        defaults={"current_since": since, "is_foreign": False},
        create_defaults={"document": document.text, "registered_at": at, "current_since": since},
    )
    _note_change("policy.put", project.name, current, policy, actor=actor, at=at)
    return policy


_Version = TypeVar("_Version", SuiteVersion, PolicyVersion)


def _after(current: SuiteVersion | PolicyVersion | None, *, at: datetime) -> datetime:
    """Return since when a version is current that replaces another: later, whatever the clock says."""
    if current is None:
        return at
    return max(at, current.current_since + timedelta(microseconds=1))


def _note_change(
    action: str,
    subject: str,
    before: _Version | None,
    after: _Version,
    *,
    actor: str,
    at: datetime,
) -> None:
    audit.record_audit(
        after.project,
        actor=actor,
        action=action,
        subject=subject,
        before=before.digest if before is not None else None,
        after=after.digest,
        at=at,
    )


def _json(body: bytes) -> object:
    document: object = json.loads(body, object_pairs_hook=_distinct_pairs)
    return document


def _distinct_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise DocumentError([Fault("", f"an object with {key!r} twice", "each key once")])
        members[key] = value
    return members


class _PlainLoader(yaml.CSafeLoader):
    """YAML as far as JSON reaches: a date stays text, a key is there once."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - overrides PyYAML's
    ) -> dict[Hashable, object]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for i, key in enumerate(keys):
            if not isinstance(key, str):
                raise _yaml_error(node.value[i][0], f"the key {key!r}", "keys that are strings")
            if key in keys[:i]:
                raise _yaml_error(node.value[i][0], f"the key {key!r} again", "each key once")
        return super().construct_mapping(node, deep=deep)


_JSON_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
_PlainLoader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.CSafeLoader.yaml_constructors.items()
    if tag is None or tag.removeprefix("tag:yaml.org,2002:") in _JSON_TAGS
}
_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _JSON_TAGS]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _yaml(body: bytes) -> object:
    try:
        _check_events(body)
        document: object = yaml.load(body, Loader=_PlainLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(
            [Fault("", f"not YAML ({_first_line(error)})", "a YAML document")]
        ) from None
    return document


def _check_events(body: bytes) -> None:
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            # A few lines of aliases can stand for gigabytes.
            raise _yaml_error(event, f"the alias *{event.anchor}", "the text itself")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            # libyaml's loader calls itself for each level and does not survive thousands.
            raise _yaml_error(event, f"more than {_DEEPEST} levels", "a document less deep")


def _yaml_error(place: yaml.Node | yaml.Event, got: str, expected: str) -> DocumentError:
    where = f" in line {place.start_mark.line + 1}" if place.start_mark is not None else ""
    return DocumentError([Fault("", got + where, expected)])


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} in line {mark.line + 1}" if mark is not None else str(problem)
