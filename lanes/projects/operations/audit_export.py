"""The audit as a file: JSON lines or CSV, of any length; who takes it is in it."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from evalhub.protocol.scalars import rfc3339
from evalhub.web.spreadsheets import csv_lines
from lanes.projects.models import AuditEntry, Project
from lanes.projects.operations import audit as audit_operations
from lanes.projects.queries import audit
from lanes.projects.queries.audit import Filter

Form = Literal["jsonl", "csv"]
_COLUMNS = ("number", "at", "actor", "action", "subject", "before", "after")


def export_audit(
    project: Project | None, wanted: Filter, form: Form, *, actor: str, at: datetime
) -> Iterator[bytes]:
    """Return the wanted entries, newest first, as pieces of a file; the export is an entry itself."""
    audit_operations.record_audit(
        project,
        actor=actor,
        action="audit.export",
        subject=project.name if project is not None else "instance",
        after={"form": form, **_told(wanted)},
        at=at,
    )
    entries = audit.exported_entries(project, wanted)
    return _json_lines(entries) if form == "jsonl" else _csv(entries)


def _told(wanted: Filter) -> dict[str, str]:
    return {name: str(value) for name, value in wanted._asdict().items() if value}


def _json_lines(entries: Iterator[AuditEntry]) -> Iterator[bytes]:
    for entry in entries:
        yield json.dumps(_row(entry)).encode() + b"\n"


def _csv(entries: Iterator[AuditEntry]) -> Iterator[bytes]:
    yield from csv_lines([_COLUMNS])
    yield from csv_lines(
        [value if isinstance(value, str) else json.dumps(value) for value in _row(entry).values()]
        for entry in entries
    )


def _row(entry: AuditEntry) -> dict[str, object]:
    return {
        "number": entry.pk,
        "at": rfc3339(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "before": entry.before,
        "after": entry.after,
    }
