"""A plan leaves the server: as an archive of everything, or as trajectories for training. Audited."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import transaction

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.export import EXPLANATION, MANIFEST, README, ArchiveStream, ExportManifest
from evidence.reader.queries import trajectories
from evidence.store.operations import exporting
from evidence.store.operations.exporting import EvidenceFile
from gates.decisions import queries
from gates.verdicts.queries.records import ENGINE_VERSION
from lanes.plans.models import Plan, SuiteVersion
from lanes.projects.operations import audit


def export_archive(plan: Plan, *, actor: str, at: datetime) -> Iterator[bytes]:
    """Return one archive of a plan, piece by piece; it is written down who took it.

    What the store has lost or damaged is named in the archive's manifest.

    Raises:
        StorageUnavailableError: if the object store is away; also later, while pieces are taken.
    """
    exporting.write_absent(plan)
    _note(plan, "archive", actor=actor, at=at)
    return _archive(plan, at=at)


def export_trajectories(plan: Plan, *, actor: str, at: datetime) -> Iterator[bytes]:
    """Return a plan's runs as JSON lines for training; it is written down who took them."""
    _note(plan, "trajectories", actor=actor, at=at)
    return (json.dumps(run).encode() + b"\n" for run in trajectories.trajectories(plan))


@transaction.atomic
def _note(plan: Plan, form: str, *, actor: str, at: datetime) -> None:
    audit.record_audit(
        plan.project,
        actor=actor,
        action="plan.export",
        subject=plan.digest,
        after={"form": form},
        at=at,
    )


def _archive(plan: Plan, *, at: datetime) -> Iterator[bytes]:
    archive = ArchiveStream()
    faults: list[str] = []
    yield from archive.add(README, [EXPLANATION.encode()])
    for name, data in _decisions(plan):
        yield from archive.add(name, [data])
    for file in exporting.evidence_files(plan):
        yield from archive.add(file.name, exporting.pieces_of(file))
        faults += _faults(file, archive.files[-1].sha256)
    names = {file.path for file in archive.files}
    faults += [f"{name} is lost." for name in exporting.lost_files(plan, there=names)]
    manifest = ExportManifest(
        plan=plan.digest,
        project=plan.project.name,
        exported_at=at,
        engine_version=ENGINE_VERSION,
        files=archive.files,
        faults=faults,
    )
    yield from archive.add(
        MANIFEST, [canonical_bytes(manifest.model_dump(mode="json", by_alias=True))]
    )
    yield from archive.end()


def _faults(file: EvidenceFile, sha256: str) -> Iterable[str]:
    if file.sha256 is not None and file.sha256 != sha256:
        yield f"{file.name} is damaged or lost: its bytes have {sha256}."


def _decisions(plan: Plan) -> Iterator[tuple[str, bytes]]:
    """Yield the suite and what was concluded, as far as there is any."""
    suites = SuiteVersion.objects.filter(project=plan.project, digest=plan.suite_digest)
    for text in suites.values_list("document", flat=True)[:1]:
        yield "suite.json", text.encode()
    conclusion = queries.newest_conclusion(plan)
    if conclusion is None:
        return
    yield "conclusion.json", canonical_bytes(conclusion.content)
    for record in conclusion.records.order_by("digest").iterator(100):
        yield (
            f"records/{record.digest.removeprefix('sha256:')}.json",
            canonical_bytes(record.content),
        )
