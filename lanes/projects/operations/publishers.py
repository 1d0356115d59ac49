"""Trusted publishers: made and removed by maintainers, and which of them a CI job's identity fits."""

import re
from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from django.db import IntegrityError, transaction

from evalhub.protocol.identity import PublisherSettings, VerifiedSource
from evalhub.web.errors import DomainError
from lanes.projects.identity import IdentityRefusedError
from lanes.projects.models import Project, Token, TrustedPublisher
from lanes.projects.operations import audit
from lanes.projects.queries import publishers as publisher_queries

MOST_PUBLISHERS = 50
_LONGEST_ENVIRONMENT = 255
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9._-]{1,150}\.ya?ml")
_REUSABLE = re.compile(
    r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+/\.github/workflows/[A-Za-z0-9._-]{1,150}\.ya?ml@[!-~]+"
)
# What git forbids in a ref, but for the star, which stands for anything here.
_REF = re.compile(r"refs/(?:(?!\.\.|//|@\{)[^\x00-\x20\x7f~^:?\[\\])+")


class InvalidPublisherError(DomainError):
    status = 422
    code = "invalid-publisher"


class PublisherConflictError(DomainError):
    status = 409
    code = "publisher-conflict"


class KeptPublisher(NamedTuple):
    """A trusted publisher, and whether it was not there before."""

    publisher: TrustedPublisher
    is_new: bool


def trust_publisher(
    project: Project, wanted: PublisherSettings, *, at: datetime, actor: str = audit.SYSTEM
) -> KeptPublisher:
    """Let a workflow's jobs speak for the project; one that is there gets these settings.

    A project that does not know its repository's id yet learns it here.

    Raises:
        InvalidPublisherError: if a setting cannot be what it should be.
        PublisherConflictError: if the project is of another repository, or the repository of another
            project.
    """
    _require_valid(wanted)
    try:
        with transaction.atomic():
            return _trust(project, wanted, at=at, actor=actor)
    except IntegrityError:
        raise PublisherConflictError(
            f"Repository {wanted.repository_id} belongs to another project here.",
            fix="Give the id of this project's own repository.",
        ) from None


def _trust(
    project: Project, wanted: PublisherSettings, *, at: datetime, actor: str
) -> KeptPublisher:
    locked = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    _settle_repository(locked, wanted.repository_id, at=at, actor=actor)
    in_use = publisher_queries.publishers_of(locked)
    there = in_use.filter(
        workflow=wanted.workflow,
        reusable_workflow=wanted.reusable_workflow,
        environment=wanted.environment,
    ).first()
    if there is None and in_use.count() >= MOST_PUBLISHERS:
        raise PublisherConflictError(
            f"The project trusts {MOST_PUBLISHERS} workflows already.",
            fix="Remove those that are not used any more.",
        )
    fields = wanted.model_dump()
    before = None if there is None else publisher_queries.settings_of(there).model_dump()
    if before == fields and there is not None:
        return KeptPublisher(there, is_new=False)
    kept = there or TrustedPublisher(project=locked, created_at=at)
    for name, value in fields.items():
        setattr(kept, name, value)
    kept.save()
    if there is not None:
        # What was issued under the old settings may be more than the new ones allow.
        _end_tokens(kept, at=at)
    audit.record_audit(
        project,
        actor=actor,
        action="publisher.trust",
        subject=str(kept),
        before=before,
        after=fields,
        at=at,
    )
    return KeptPublisher(kept, is_new=there is None)


def _settle_repository(project: Project, repository_id: int, *, at: datetime, actor: str) -> None:
    if project.repository_id is None:
        Project.objects.filter(pk=project.pk).update(repository_id=repository_id)
        audit.record_audit(
            project,
            actor=actor,
            action="project.repository",
            subject=project.name,
            after={"repository_id": repository_id},
            at=at,
        )
    elif project.repository_id != repository_id:
        raise PublisherConflictError(
            f"The project is repository {project.repository_id}, not {repository_id}.",
            fix="Give the id of this project's own repository.",
        )


@transaction.atomic
def remove_publisher(
    publisher: TrustedPublisher, *, at: datetime, actor: str = audit.SYSTEM
) -> None:
    """Trust a workflow no longer: every token that its jobs were given ends at once."""
    row = TrustedPublisher.objects.select_for_update(no_key=True).get(pk=publisher.pk)
    if row.removed_at is not None:
        return
    TrustedPublisher.objects.filter(pk=row.pk).update(removed_at=at)
    ended = _end_tokens(row, at=at)
    audit.record_audit(
        row.project,
        actor=actor,
        action="publisher.remove",
        subject=str(row),
        before=publisher_queries.settings_of(row).model_dump(),
        after={"tokens_revoked": ended},
        at=at,
    )


def _end_tokens(publisher: TrustedPublisher, *, at: datetime) -> int:
    living = Token.objects.filter(publisher=publisher, revoked_at__isnull=True, expires_at__gt=at)
    return living.update(revoked_at=at)


def fitting_publisher(source: VerifiedSource) -> TrustedPublisher:
    """Return the publisher that a CI job is one of.

    Raises:
        IdentityRefusedError: if no project trusts the repository, or none of its publishers fits.
    """
    candidates = publisher_queries.publishers_of_repository(source.repository_id)
    if not candidates:
        raise IdentityRefusedError(
            "unknown-repository",
            f"No project here trusts repository {source.repository_id} ({source.repository}).",
            fix="Have a maintainer of the project make a trusted publisher with this id; a repository"
            " of the same name with another id is another repository.",
            status=403,
        )
    misfits = [list(_misfits(publisher, source)) for publisher in candidates]
    for publisher, misfit in zip(candidates, misfits, strict=True):
        if not misfit:
            return publisher
    nearest = min(misfits, key=len)
    raise IdentityRefusedError(
        f"wrong-{nearest[0].name}",
        f"{_listed(nearest)}, so no trusted publisher of {candidates[0].project.name} fits.",
        fix="Run the job as a trusted publisher says, or have a maintainer make one that fits.",
        status=403,
    )


class _Misfit(NamedTuple):
    """What of a job differs from a publisher."""

    name: str
    got: str
    expected: str


def _misfits(publisher: TrustedPublisher, source: VerifiedSource) -> Iterator[_Misfit]:
    if source.repository_owner_id != publisher.repository_owner_id:
        yield _Misfit("owner", str(source.repository_owner_id), str(publisher.repository_owner_id))
    workflow = _path_of(source.workflow_ref)
    if workflow != publisher.workflow:
        yield _Misfit("workflow", workflow, publisher.workflow)
    job_workflow = publisher.reusable_workflow or source.workflow_ref
    if source.job_workflow_ref != job_workflow:
        yield _Misfit("job-workflow", source.job_workflow_ref, job_workflow)
    if (
        publisher.environment
        and publisher.environment.lower() != (source.environment or "").lower()
    ):
        yield _Misfit("environment", source.environment or "none", publisher.environment)
    if publisher.refs and not any(fnmatchcase(source.ref, pattern) for pattern in publisher.refs):
        yield _Misfit("ref", source.ref, " or ".join(publisher.refs))


def _path_of(workflow_ref: str) -> str:
    """Return `.github/workflows/FILE` of OWNER/REPO/.github/workflows/FILE@REF.

    >>> _path_of("octo-org/octo-repo/.github/workflows/evals.yml@refs/heads/main")
    '.github/workflows/evals.yml'
    """
    return "/".join(workflow_ref.partition("@")[0].split("/")[2:])


def _listed(misfits: list[_Misfit]) -> str:
    parts = [f"the {m.name.replace('-', ' ')} was {m.got}; expected {m.expected}" for m in misfits]
    text = "; ".join(parts)
    return text[0].upper() + text[1:]


def may_put_documents(publisher: TrustedPublisher, source: VerifiedSource) -> bool:
    """Return whether a job may register suite and policy: on the protected default branch alone."""
    return (
        publisher.may_put_documents
        and source.ref_protected
        and source.ref == f"refs/heads/{publisher.project.default_branch}"
    )


def _require_valid(wanted: PublisherSettings) -> None:
    if not _WORKFLOW.fullmatch(wanted.workflow):
        raise InvalidPublisherError(
            f"The workflow was {wanted.workflow!r}; expected .github/workflows/FILE.yml."
        )
    if wanted.reusable_workflow and not _REUSABLE.fullmatch(wanted.reusable_workflow):
        raise InvalidPublisherError(
            f"The reusable workflow was {wanted.reusable_workflow!r};"
            " expected OWNER/REPO/.github/workflows/FILE.yml@REF."
        )
    if len(wanted.environment) > _LONGEST_ENVIRONMENT:
        raise InvalidPublisherError(
            f"The environment has {len(wanted.environment)} characters; expected at most"
            f" {_LONGEST_ENVIRONMENT}."
        )
    for ref in wanted.refs:
        if not _REF.fullmatch(ref):
            raise InvalidPublisherError(
                f"A ref was {ref!r}; expected refs/heads/NAME or refs/pull/*/merge, where a star"
                " stands for anything."
            )
