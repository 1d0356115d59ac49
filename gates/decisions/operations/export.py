"""A plan leaves the server: as an archive of everything, or as trajectories for training. Audited."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.export import (
    CONCLUSION,
    EXPLANATION,
    MANIFEST,
    README,
    RECORDS,
    SUITE,
    SUMS,
    ArchiveStream,
    ExportManifest,
)
from evalhub.protocol.retained import PlanStateWord
from evidence.reader.queries import trajectories
from evidence.store.operations import exporting
from evidence.store.operations.exporting import EvidenceFile
from gates.decisions import queries
from gates.verdicts.queries.records import ENGINE_VERSION
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan, PlanState, SuiteVersion
from lanes.projects.operations import audit

_WORDS: dict[PlanState, PlanStateWord] = {
    PlanState.REGISTERED: "registered",
    PlanState.RUNNING: "running",
    PlanState.CONCLUDED: "concluded",
}


def export_archive(plan: Plan, *, actor: str, at: datetime) -> Iterator[bytes]:
    """Return one archive of a plan, piece by piece; it is written down who took it.

    What the store has lost or damaged is named in the archive's manifest.

    Raises:
        StorageUnavailableError: if the object store is away; also later, while pieces are taken.
    """
    exporting.write_absent(plan)
    _note(plan, "archive", actor=actor, at=at)
    return _archive(plan, actor=actor, at=at)


class RunLines(NamedTuple):
    """Runs as JSON lines, and how many there are to be: lines do not show where they were cut off."""

    total: int
    lines: Iterator[bytes]


def export_trajectories(plan: Plan, *, actor: str, at: datetime) -> RunLines:
    """Return a plan's runs as JSON lines for training; it is written down who took them."""
    _note(plan, "trajectories", actor=actor, at=at)
    known = trajectories.known_runs(plan)
    runs = trajectories.trajectories(plan, known)
    return RunLines(known.total, (json.dumps(run).encode() + b"\n" for run in runs))


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


def _archive(plan: Plan, *, actor: str, at: datetime) -> Iterator[bytes]:
    # Before anything is read: what comes meanwhile is more than is told.
    state = PlanState(Plan.objects.values_list("state", flat=True).get(pk=plan.pk))
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
    yield from archive.add(SUMS, [archive.sums()])
    manifest = ExportManifest(
        plan=plan.digest,
        project=plan_queries.plan_document(plan).project,
        instance=settings.PUBLIC_URL,
        exported_at=at,
        exported_by=actor,
        state=_WORDS[state],
        registered_at=plan.registered_at,
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
        yield SUITE, text.encode()
    conclusion = queries.newest_conclusion(plan)
    if conclusion is None:
        return
    yield CONCLUSION, canonical_bytes(conclusion.content)
    for record in conclusion.records.order_by("digest").iterator(100):
        yield (
            f"{RECORDS}/{record.digest.removeprefix('sha256:')}.json",
            canonical_bytes(record.content),
        )
