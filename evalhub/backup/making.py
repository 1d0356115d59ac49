"""Making a backup: rows first, then objects, then the manifest that makes it count."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import evalhub
from evalhub.backup import databases, objects
from evalhub.backup.manifest import (
    MANIFEST,
    OBJECTS,
    BackupError,
    Listed,
    Manifest,
    described_file,
    read_listing,
    read_manifest,
    write_listing,
    write_manifest,
)

_LOCK = ".lock"
_DATABASE, _LISTING = "database-", "objects-"
# Their rows stay, whatever becomes of the bytes.
_GROWING = ("lanes_plans_plan", "evidence_store_segment")


class Made(NamedTuple):
    """A finished backup, and how many of its objects were copied for it."""

    manifest: Manifest
    copied: int


def make_backup(folder: Path, *, at: datetime) -> Made:
    """Bring the backup in `folder` up to date; what it holds already is not copied again.

    Until its end the backup before it stays whole. Lanes may upload and workers may conclude meanwhile.

    Raises:
        BackupError: if it cannot be made; the backup before it stays.
    """
    with _claimed(folder):
        before = read_manifest(folder) if (folder / MANIFEST).exists() else None
        try:
            return _make(folder, before, at=at)
        except OSError as error:
            raise BackupError(f"{folder} could not be written: {error.strerror}.") from error
        finally:
            _clear(folder)


def _make(folder: Path, before: Manifest | None, *, at: datetime) -> Made:
    stamp = f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    database = folder / f"{_DATABASE}{stamp}"
    dumped = databases.dump(database)
    _expect_no_fewer(before, dumped.rows)
    # Before the objects are listed: a row that comes later may name one that is not in the list.
    named = objects.named_by_rows()
    known = _known(folder, before)
    entries: dict[str, Listed] = {}
    copied = 0
    for entry, is_new in objects.copied_objects(folder, known):
        entries[entry.key] = entry
        copied += is_new
    entries = objects.without_removed(entries)
    listing = folder / f"{_LISTING}{stamp}.ndjson"
    write_listing(listing, entries.values())
    manifest = Manifest(
        form="evalhub.backup/1",
        release=evalhub.__version__,
        made_at=at,
        database_kind="sqlite" if databases.kind() == "sqlite" else "postgresql",
        database=described_file(database),
        migrations=dumped.migrations,
        rows=dumped.rows,
        listing=described_file(listing),
        object_count=len(entries),
        object_bytes=sum(entry.size_bytes for entry in entries.values()),
        faults=objects.evidence_faults(named, entries),
    )
    write_manifest(folder, manifest)
    # Only now: until then the backup before this one names them.
    objects.drop_removed(folder, entries)
    return Made(manifest, copied)


def _expect_no_fewer(before: Manifest | None, rows: dict[str, int]) -> None:
    """Refuse to put a database that was emptied, or is another one, in the place of what is kept."""
    if before is None:
        return
    for table in _GROWING:
        kept, found = before.rows.get(table, 0), rows.get(table, 0)
        if found < kept:
            raise BackupError(
                f"The database has {found} rows in {table}, the backup before {kept}, and such rows are "
                "never deleted: it was emptied, restored, or is another one. Name another folder."
            )


def _known(folder: Path, before: Manifest | None) -> dict[str, Listed]:
    if before is None:
        return {}
    listing = folder / before.listing.name
    if not listing.is_file() or described_file(listing) != before.listing:
        # Then nothing is known for sure, and everything is copied again.
        return {}
    return {entry.key: entry for entry in read_listing(listing)}


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Make the folder for this user alone, and hold it against a second backup."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = [path.name for path in folder.iterdir() if not _is_ours(path.name)]
        if foreign:
            raise BackupError(
                f"{folder} holds something else ({objects.shortened(sorted(foreign))}); a backup "
                "wants a folder of its own."
            )
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BackupError(f"{folder} cannot be used: {error.strerror}.") from error
    try:
        _take(lock, folder)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupError(f"Another backup into {folder} is under way; wait for its end.") from None


def _is_ours(name: str) -> bool:
    return name in {OBJECTS, _LOCK} or name.startswith((MANIFEST, _DATABASE, _LISTING))


def _clear(folder: Path) -> None:
    """Remove what the manifest does not name: of the backup before it, or of one that failed."""
    kept = set()
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        kept = {manifest.database.name, manifest.listing.name}
    for path in folder.iterdir():
        if path.name.startswith((_DATABASE, _LISTING)) and path.name not in kept:
            path.unlink()
