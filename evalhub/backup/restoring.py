"""Restoring a backup: into an empty installation, and only when all of the backup is sound."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from evalhub.backup import databases, objects
from evalhub.backup.manifest import (
    BackupError,
    FilePart,
    Listed,
    Manifest,
    described_file,
    read_listing,
    read_manifest,
)
from evalhub.backup.removed import note_removed
from evalhub.supervisor.directory import claim_data_directory
from evalhub.supervisor.errors import UpError


def check_backup(folder: Path) -> Manifest:
    """Read all of a backup and compare it with its manifest.

    Raises:
        BackupError: if anything is absent or damaged.
    """
    manifest = read_manifest(folder)
    for part in (manifest.database, manifest.listing):
        _expect_file(folder, part)
    if manifest.database_kind == "sqlite":
        databases.expect_sound_file(folder / manifest.database.name)
    objects.expect_whole(folder, _entries(folder, manifest).values())
    return manifest


def restore_backup(folder: Path) -> Manifest:
    """Fill an empty database and an empty object store from a backup; migrate what is older.

    Objects come first, so that no row stands without its object. Whatever fails can be repeated.

    Raises:
        BackupError: if the backup is not sound, the target is not empty or has a server that runs,
            or writing fails.
    """
    manifest = check_backup(folder)
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    with _without_server():
        return _restored(folder, manifest)


def _restored(folder: Path, manifest: Manifest) -> Manifest:
    _expect_known_migrations(manifest)
    _expect_empty_database(manifest)
    entries = _entries(folder, manifest)
    objects.expect_no_others(entries)
    objects.restore_objects(folder, entries.values())
    databases.restore(folder / manifest.database.name)
    _expect_all_rows(manifest)
    if _pending():
        call_command("migrate", interactive=False, verbosity=0)
    _expect_evidence(manifest, entries)
    note_removed(entries)
    return manifest


@contextmanager
def _without_server() -> Iterator[None]:
    """Keep `manage.py up` from starting here meanwhile.

    Raises:
        BackupError: if it runs.
    """
    try:
        directory = claim_data_directory(settings.DATA_DIR)
    except UpError as error:
        raise BackupError(f"Nothing is restored under a server that runs. {error}") from error
    try:
        yield
    finally:
        os.close(directory.lock)


def _entries(folder: Path, manifest: Manifest) -> dict[str, Listed]:
    return {entry.key: entry for entry in read_listing(folder / manifest.listing.name)}


def _expect_file(folder: Path, part: FilePart) -> None:
    path = folder / part.name
    if not path.is_file():
        raise BackupError(f"{path}, which the manifest names, is not there.")
    found = described_file(path)
    if found != part:
        raise BackupError(
            f"{path} is damaged: it has {found.size_bytes} bytes and the digest {found.sha256}, the "
            f"manifest says {part.size_bytes} and {part.sha256}. Restore another backup."
        )


def _expect_known_migrations(manifest: Manifest) -> None:
    known = set(MigrationLoader(None).disk_migrations)
    unknown = [migration for migration in manifest.migrations if migration not in known]
    if unknown:
        app, name = unknown[0]
        raise BackupError(
            f"The backup is of release {manifest.release}, which is newer than this one: its "
            f"migration {app}.{name} is not known here. Restore it with that release."
        )


def _expect_empty_database(manifest: Manifest) -> None:
    if databases.kind() != manifest.database_kind:
        raise BackupError(
            f"The backup holds a database of {manifest.database_kind}, and this installation is on "
            f"{databases.kind()}: set DATABASE_URL so that both are the same."
        )
    found = databases.tables()
    if found:
        raise BackupError(
            f"The database is not empty: it has the table {found[0]}. Name an empty one"
            + (" in EVALHUB_DATA." if databases.kind() == "sqlite" else " in DATABASE_URL.")
        )


def _expect_all_rows(manifest: Manifest) -> None:
    found = databases.counted_rows()
    other = [table for table, count in manifest.rows.items() if found.get(table) != count]
    if other:
        table = other[0]
        raise BackupError(
            f"The restored table {table} has {found.get(table)} rows, the manifest says "
            f"{manifest.rows[table]}. Do not use this installation."
        )


def _expect_evidence(manifest: Manifest, entries: dict[str, Listed]) -> None:
    faults = objects.evidence_faults(objects.named_by_rows(), entries)
    unforeseen = sorted(set(faults) - set(manifest.faults))
    if unforeseen:
        raise BackupError(
            f"{len(unforeseen)} receipts have no object: {objects.shortened(unforeseen)}. Do not use "
            "this installation."
        )


def _pending() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
