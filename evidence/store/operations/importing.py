"""Taking in the archive of a plan: distrusted, written to the object store, and made rows of like any folder.

The way is the one by which rows are made again from objects, so an item counts here only if intake
accepts it. What is imported is foreign: it can be read, and it has no check, spends nothing, and is
nobody's baseline by itself.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import BinaryIO, NamedTuple

from django.conf import settings
from django.db import IntegrityError

from evalhub.protocol.exported import ExportedAttempt, ExportedPlan, ExportError, open_export
from evalhub.protocol.faults import DocumentError
from evalhub.protocol.retained import RetainedOrigin
from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.operations import objects, pins
from evidence.store.operations.findings import Finding, digest_of
from evidence.store.operations.import_checks import expect_sound_evidence
from evidence.store.operations.plan_folders import PlanFolder
from evidence.store.operations.plan_rows import Tally
from evidence.store.operations.rebuilding import PlanRebuild
from evidence.store.operations.uploads import Upload, nameless_copy, received_upload
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations import lifecycle as lifecycle_operations
from lanes.plans.operations import retained as plans_retained
from lanes.projects.models import Project
from lanes.projects.operations import audit

_PINNED = "Imported to be read, whatever the age of its evidence."


class ArchiveRefusedError(DomainError):
    """An archive is not the export of a plan that it says it is. Nothing of it was kept."""

    status = 422
    code = "archive-refused"
    fix = "Export the plan again, and send the file as `evalhub export` wrote it."


class PlanNativeError(DomainError):
    """The plan itself is here: a copy beside it would tell the same twice."""

    status = 409
    code = "plan-native"
    fix = "Look at the plan where it was registered."


class ImportedElsewhereError(DomainError):
    """A plan is in one place of an instance."""

    status = 409
    code = "plan-elsewhere"
    fix = "Look at the plan in that project."


class ProjectHereError(DomainError):
    """A project of this instance may yet register the plan itself: nobody else takes its digest."""

    status = 409
    code = "project-here"
    fix = "Import it into the project that it was planned for, or into another instance."


class ImportContradictedError(DomainError):
    """The archive tells of the same plan otherwise than one that was imported before."""

    status = 409
    code = "import-contradicted"
    fix = "Find out which of the two archives was changed; what was imported before stays."


class ImportBusyError(DomainError):
    status = 409
    code = "import-busy"
    fix = "Another import of this plan is under way: send the same again when it has ended."


class Imported(NamedTuple):
    """A foreign plan, and whether this archive has told anything new of it."""

    plan: Plan
    is_new: bool
    tally: Tally


def receive_archive(
    project: Project,
    *,
    stream: BinaryIO,
    length: int,
    content_digest: str,
    actor: str,
    at: datetime,
) -> Imported:
    """Receive the archive of a plan and import it.

    Raises:
        DomainError: from `received_upload` and `import_archive`.
    """
    with received_upload(
        stream, length=length, content_digest=content_digest, most_bytes=settings.IMPORT_BYTES
    ) as upload:
        return import_archive(project, upload, actor=actor, at=at)


def import_archive(project: Project, upload: Upload, *, actor: str, at: datetime) -> Imported:
    """Make a foreign plan of an archive; the same again changes nothing, a newer one adds what is new.

    All of it is looked at before anything is written. Killed in between, it is safe to repeat.

    Raises:
        ArchiveRefusedError: if anything in it is not what its digests, its receipts or intake say.
        PlanNativeError, ImportedElsewhereError: if the plan is here already, not imported into
            `project`.
        ProjectHereError: if another project of this instance planned it.
        ImportContradictedError: if an archive of the plan was imported that tells otherwise.
        ImportBusyError: if the same plan is being imported.
    """
    exported = _opened(upload)
    known = Plan.objects.filter(digest=exported.digest).select_related("project").first()
    if known is not None:
        _expect_foreign(known, project)
        if _is_known(known, upload, exported):
            return Imported(known, is_new=False, tally=Tally())
    else:
        _expect_no_namesake(exported, project)
    _expect_free_attempts(exported)
    _expect_sound(exported, at=at)
    origin = _origin(exported, upload, actor=actor, at=at)
    folder = f"{project.name}/{exported.digest}"
    _expect_same_documents(exported, folder)
    _store(exported, origin, folder)
    plan, tally = _rows(folder, at=at)
    if known is None:
        # Its age is counted from when it ran: else retention might take it before anybody has read it.
        pins.pin_plan(plan, reason=_PINNED, actor=actor, at=at)
    _finish(plan, origin, actor=actor, at=at)
    return Imported(plans_queries.plan_with_digest(plan.digest), is_new=True, tally=tally)


def _opened(upload: Upload) -> ExportedPlan:
    try:
        return open_export(upload.file)
    except ExportError as error:
        raise ArchiveRefusedError(f"The archive was refused: {error}") from None


def _expect_sound(exported: ExportedPlan, *, at: datetime) -> None:
    try:
        expect_sound_evidence(exported, at=at)
    except ExportError as error:
        raise ArchiveRefusedError(f"The archive was refused: {error}") from None


def _expect_foreign(plan: Plan, project: Project) -> None:
    if plan.project_id != project.pk:
        # Whoever has the archive knows of the plan, and need not know who else has it.
        raise ImportedElsewhereError(
            f"Plan {plan.digest} is in another project of this instance already."
        )
    if not plan.is_foreign:
        raise PlanNativeError(f"Plan {plan.digest} was registered here, in {project.name} itself.")


def _expect_no_namesake(exported: ExportedPlan, project: Project) -> None:
    name = exported.document.project
    if name != project.name and Project.objects.filter(name=name).exists():
        raise ProjectHereError(f"The plan was made for {name}, a project of this instance.")


def _is_known(plan: Plan, upload: Upload, exported: ExportedPlan) -> bool:
    """Return whether all that an archive tells was imported before."""
    origin = plans_queries.origin_of(plan)
    if origin is None or queries.are_being_rebuilt([plan.pk]):
        return False
    is_same = origin.archive_sha256 == upload.sha256
    return is_same or exported.export.manifest.exported_at < origin.exported_at


def _expect_free_attempts(exported: ExportedPlan) -> None:
    keys = [attempt.document.attempt for attempt in exported.attempts]
    for first in range(0, len(keys), 500):
        others = Attempt.objects.filter(key__in=keys[first : first + 500])
        taken = others.exclude(lane__plan__digest=exported.digest).values_list("key", flat=True)
        if taken:
            raise ArchiveRefusedError(
                f"The archive was refused: attempt {taken[0]} belongs to another plan here."
            )


def _origin(exported: ExportedPlan, upload: Upload, *, actor: str, at: datetime) -> RetainedOrigin:
    manifest = exported.export.manifest
    origin = RetainedOrigin(
        plan=exported.digest,
        project=exported.document.project,
        instance=manifest.instance,
        exported_at=manifest.exported_at,
        exported_by=manifest.exported_by,
        engine_version=manifest.engine_version,
        state=manifest.state,
        registered_at=manifest.registered_at,
        archive_sha256=upload.sha256,
        imported_at=at,
        imported_by=actor[:200],
        conclusion=exported.conclusion,
    )
    try:
        return origin.with_digest()
    except DocumentError as error:
        raise ArchiveRefusedError(f"The archive was refused: its conclusion has {error}") from None


def _expect_same_documents(exported: ExportedPlan, folder: str) -> None:
    """Compare what an archive says of attempts and segments with what was imported before."""
    for path in _evidence_paths(exported):
        if path.endswith(".zip"):
            continue
        before = _stored_digest(f"{folder}/{path}")
        if before is not None and before != exported.export.digests[path]:
            raise ImportContradictedError(
                f"{path} has the digest {exported.export.digests[path]} in this archive and {before}"
                " in what was imported before."
            )


def _store(exported: ExportedPlan, origin: RetainedOrigin, folder: str) -> None:
    """Write the objects: first that the plan is foreign, last what its rows are made from.

    Whoever is killed in between leaves a folder that no rows are made of.
    """
    objects.put_document(f"{folder}/{objects.FOREIGN}", origin)
    for path in (objects.POLICY, *_evidence_paths(exported), objects.PLAN):
        key = f"{folder}/{path}"
        if not object_store().exists(key) and not _was_purged(key):
            with nameless_copy(exported.export.chunks(path)) as file:
                object_store().put(key, file)


def _evidence_paths(exported: ExportedPlan) -> Iterator[str]:
    for attempt in exported.attempts:
        yield from _paths_of(attempt, exported.export.digests)


def _paths_of(attempt: ExportedAttempt, there: Mapping[str, str]) -> Iterator[str]:
    for segment in attempt.segments:
        # What was never answered counts nowhere.
        if segment.receipt is not None or segment.refusal is not None:
            beside = (segment.receipt, segment.refusal, segment.purged)
            yield from (path for path in (segment.archive, *beside) if path is not None)
    for name in (objects.SEAL, objects.ATTEMPT):
        if f"{attempt.folder}/{name}" in there:
            yield f"{attempt.folder}/{name}"


def _was_purged(key: str) -> bool:
    return key.endswith(".zip") and object_store().exists(objects.tombstone_key(key))


def _stored_digest(key: str) -> str | None:
    try:
        with object_store().open(key) as file:
            return digest_of(file)[0]
    except ObjectMissingError:
        return None


def _rows(folder: str, *, at: datetime) -> tuple[Plan, Tally]:
    read, tally = PlanFolder(folder), Tally()
    try:
        for _ in PlanRebuild(read, tally, at=at).steps():
            pass
    except IntegrityError as error:
        raise ImportBusyError("The plan's rows are being made by someone else.") from error
    faults = [finding for finding in read.told if finding.is_fault]
    if faults:
        raise ImportContradictedError(_sentence(faults))
    return plans_queries.plan_with_digest(read.digest), tally


def _sentence(faults: list[Finding]) -> str:
    rest = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].key.rpartition('/')[2]} was left out: {faults[0].sentence}{rest}"


def _finish(plan: Plan, origin: RetainedOrigin, *, actor: str, at: datetime) -> None:
    plans_retained.restore_origin(plan, origin)
    audit.record_audit(
        plan.project,
        actor=actor,
        action="plan.import",
        subject=plan.digest,
        after={
            "project": origin.project,
            "instance": origin.instance,
            "archive": origin.archive_sha256,
        },
        at=at,
    )
    # Nothing more is to be waited for: it is concluded from what is there.
    lifecycle_operations.close_plan(plan, actor=actor, at=at)
