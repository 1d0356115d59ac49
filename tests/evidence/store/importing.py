"""Archives of plans for tests: made by the real export, taken to another instance, and tampered with."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from datetime import datetime
from typing import Any

from evalhub.protocol.canonical import Digest, bytes_digest, canonical_bytes
from evalhub.protocol.export import ArchiveStream
from evidence.store.operations import importing
from evidence.store.operations.importing import Imported
from evidence.store.operations.reindex import DERIVED
from evidence.store.operations.uploads import Upload
from evidence.store.storage import object_store
from gates.decisions.operations import export
from lanes.plans.models import Plan, PolicyVersion
from lanes.projects.models import Project
from tests.evidence.store.dumps import drop_rows
from tests.lanes.factories import NOW

Files = dict[str, bytes]

CONCLUDED = (
    "evidence_store.Pin",
    "gates_verdicts.DecisionRecord",
    "gates_verdicts.ChosenBaseline",
    "gates_decisions.Conclusion",
    "gates_decisions.Conclusion_records",
)
"""Tables that refer to plans, and are made anew or kept elsewhere."""


def archive_of(plan: Plan, *, actor: str = "token:maintainer", at: datetime = NOW) -> bytes:
    return b"".join(export.export_archive(plan, actor=actor, at=at))


def forget_everything() -> None:
    """Make this instance another one: no plan, no object, and its projects are others."""
    drop_rows((*DERIVED, *CONCLUDED))
    for project in Project.objects.filter(name__startswith="acme/"):
        Project.objects.filter(pk=project.pk).update(name=f"here/{project.pk}", repository_id=None)
    PolicyVersion.objects.all().delete()
    for key in list(object_store().keys()):
        object_store().delete(key)


def bring(project: Project, archive: bytes, **arguments: Any) -> Imported:
    """Import an archive."""
    upload = Upload(io.BytesIO(archive), Digest(bytes_digest(archive)), len(archive))
    return importing.import_archive(project, upload, **{"actor": "admin", "at": NOW, **arguments})


def files_of(archive: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def packed(files: Files) -> bytes:
    """Return an archive of these files as they are, whatever its manifest says."""
    stream = ArchiveStream()
    pieces: list[bytes] = []
    for name, data in files.items():
        pieces += stream.add(name, [data])
    return b"".join([*pieces, *stream.end()])


def forged(archive: bytes, change: Callable[[Files], None]) -> bytes:
    """Return an archive that somebody changed who knew to change its manifest as well."""
    files = files_of(archive)
    manifest = json.loads(files.pop("manifest.json"))
    change(files)
    told = [
        {
            "path": path,
            "sha256": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size_bytes": len(data),
        }
        for path, data in files.items()
    ]
    files["manifest.json"] = canonical_bytes({**manifest, "files": told})
    return packed(files)


def only(files: Files, ending: str) -> str:
    """Return the first path with this ending."""
    return min(path for path in files if path.endswith(ending))
