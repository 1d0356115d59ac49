"""`evalhub export`: a plan as one archive that needs no evalhub to be read, or its runs for training."""

import argparse
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from evalhub.protocol.export import MANIFEST, ExportedFile, ExportManifest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.runner.client import Downloaded
from evalhub.runner.connection import connected
from evalhub.runner.console import complain, say, say_json
from evalhub.runner.digests import add_plan_digest, plan_digest
from evalhub.runner.errors import Exit, InputError, StoreUnreachableError
from evalhub.runner.options import wants_json

_CHUNK = 2**18


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_plan_digest(parser)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="a file to be made")
    parser.add_argument(
        "--trajectories",
        action="store_true",
        help="JSON lines instead: each run with transcript, scores, tier and faults, for training",
    )
    parser.set_defaults(handler=export)


class Exported(NamedTuple):
    """What was written, and what the store itself had lost or damaged of it."""

    parts: int
    size_bytes: int
    faults: list[str]
    state: str | None = None
    """How far the plan was; None where that was not told."""


def export(options: argparse.Namespace) -> int:
    """Write the file, once it is whole and each digest was looked at; it appears complete or never."""
    digest, out = plan_digest(options.digest), Path(options.out)
    if out.exists():
        raise InputError(f"{out} is there already; name a file that is not.")
    form = "trajectories" if options.trajectories else "archive"
    with connected(options) as store, _new_file(out) as file:
        came = store.download(digest, form=form, into=file)
        exported = (
            _counted(file, came)
            if options.trajectories
            else _verified(file, digest, came.size_bytes)
        )
    if wants_json(options):
        say_json({"plan": digest, "file": str(out), **exported._asdict()})
    else:
        what = "runs" if options.trajectories else "files"
        say(f"{out}: {exported.parts} {what}, {exported.size_bytes} bytes of plan {digest}.")
    if exported.state not in {"concluded", None}:
        complain(f"The plan was {exported.state} by then: there may be more of it later.")
    for fault in exported.faults:
        complain(f"The store's own: {fault}")
    return Exit.GATE_FAILED if exported.faults else Exit.GOOD


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def _verified(file: BinaryIO, digest: str, size: int) -> Exported:
    """Compare an archive with its manifest, file by file."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = _manifest(archive)
            if manifest.plan != digest:
                raise _BrokenExportError(f"it is plan {manifest.plan}")
            for told in manifest.files:
                _compare(archive, told)
    except (zipfile.BadZipFile, DocumentError, _BrokenExportError) as error:
        raise StoreUnreachableError(
            f"What the store sent is no whole export ({error}); try the same again."
        ) from None
    return Exported(len(manifest.files), size, manifest.faults, manifest.state)


class _BrokenExportError(Exception):
    """An archive is not what it says of itself."""


def _manifest(archive: zipfile.ZipFile) -> ExportManifest:
    if MANIFEST not in archive.namelist():
        raise _BrokenExportError(f"it has no {MANIFEST}")
    with archive.open(MANIFEST) as member:
        return parse_document(ExportManifest, member.read())


def _compare(archive: zipfile.ZipFile, told: ExportedFile) -> None:
    try:
        member = archive.open(told.path)
    except KeyError:
        raise _BrokenExportError(f"it has no {told.path}") from None
    found = hashlib.sha256()
    with member:
        while piece := member.read(_CHUNK):
            found.update(piece)
    if f"sha256:{found.hexdigest()}" != told.sha256:
        raise _BrokenExportError(f"{told.path} is not what {MANIFEST} says")


def _counted(file: BinaryIO, came: Downloaded) -> Exported:
    file.seek(0)
    runs, faults = 0, []
    for line in file:
        try:
            run = json.loads(line)
        except ValueError:
            raise StoreUnreachableError(
                f"Line {runs + 1} of what the store sent is no JSON; try the same again."
            ) from None
        runs += 1
        if "unreadable" in run:
            faults.append(run["unreadable"])
    if came.runs not in {runs, None}:
        # Some proxies end an answer that was broken off as if it had been whole.
        raise StoreUnreachableError(
            f"What the store sent ended after {runs} of {came.runs} runs; try the same again."
        )
    return Exported(runs, came.size_bytes, faults)
