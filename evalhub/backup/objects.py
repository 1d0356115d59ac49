"""The objects' part of a backup: each is copied once, since an object never changes."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from evalhub.backup.manifest import OBJECTS, BackupError, Listed, sha256_of
from evalhub.protocol.tombstones import TOMBSTONE
from evidence.store.models import Refusal, Segment
from evidence.store.operations.objects import tombstone_key
from evidence.store.storage import (
    DirectoryStore,
    ObjectMissingError,
    ObjectStore,
    StorageUnavailableError,
    object_store,
)

# Named for their content, or the receipt of such a one. The few others are copied each time.
_LASTING = re.compile(r"-[0-9a-f]{64}\.(zip|receipt\.json|purged\.json)$")
_TOMBSTONE = f".{TOMBSTONE}"
_MOST_NAMED = 5


class _Hashed:
    """A file that is hashed and counted while something else reads it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def read(self, size: int = -1) -> bytes:
        chunk = self.file.read(size)
        self.digest.update(chunk)
        self.size_bytes += len(chunk)
        return chunk


def copied_objects(folder: Path, known: dict[str, Listed]) -> Iterator[tuple[Listed, bool]]:
    """Copy each object into the backup; yield it, and whether it was copied just now.

    What `known` lists and the folder holds in full is not read again.

    Raises:
        BackupError: if an object cannot be read, or the copy cannot be written.
    """
    source, target = object_store(), DirectoryStore(folder / OBJECTS)
    for key in _own_keys(source):
        entry = known.get(key)
        if entry is not None and _LASTING.search(key) and _is_whole(folder, entry):
            yield entry, False
            continue
        try:
            with source.open(key) as file:
                yield _copied(key, file, target), True
        except ObjectMissingError:
            # Deleted since it was listed.
            continue
        except StorageUnavailableError as error:
            raise BackupError(
                f"The object {key} could not be read: {error.detail}{_said(error)}"
            ) from error
        except ValueError as error:
            raise BackupError(
                f"The object store in {source.place} holds {key!r}, which evalhub cannot have "
                "written: move it to a place of its own."
            ) from error


def _copied(key: str, file: BinaryIO, target: DirectoryStore) -> Listed:
    hashed = _Hashed(file)
    try:
        target.put(key, cast(BinaryIO, hashed))
    except StorageUnavailableError as error:
        raise BackupError(
            f"The object {key} could not be written to {target.root}: {error.detail}{_said(error)}"
        ) from error
    return Listed(key, hashed.size_bytes, f"sha256:{hashed.digest.hexdigest()}")


def _own_keys(store: ObjectStore) -> Iterator[str]:
    """Yield the keys that evalhub writes for good; its probes begin with a dot."""
    keys = store.keys()
    return (key for key in keys if not key.startswith("."))


def named_by_rows() -> dict[str, str | None]:
    """Return the objects that stored evidence names, with the digest that its receipt has, if any.

    Without those that were removed on purpose.
    """
    there = Refusal.objects.filter(removal__isnull=True, segment__removal__isnull=True)
    refusals = there.order_by("pk").values_list("object_key", flat=True)
    named: dict[str, str | None] = dict.fromkeys(refusals.iterator())
    segments = Segment.objects.filter(removal__isnull=True).order_by("pk")
    return named | dict(segments.values_list("object_key", "sha256").iterator())


def evidence_faults(named: dict[str, str | None], entries: dict[str, Listed]) -> dict[str, str]:
    """Return which of the named objects are absent or have other bytes, and what is wrong.

    Those beside which a tombstone lies were removed on purpose, after their rows were read.
    """
    faults = {}
    for key, sha256 in named.items():
        entry = entries.get(key)
        if tombstone_key(key) in entries:
            continue
        if entry is None:
            faults[key] = "absent"
        elif sha256 not in {None, entry.sha256}:
            faults[key] = f"it has {entry.sha256}, its receipt says {sha256}"
    return faults


def without_removed(entries: dict[str, Listed]) -> dict[str, Listed]:
    """Return the objects but those beside which a tombstone lies: their bytes were about to go."""
    removed = {f"{key.removesuffix(_TOMBSTONE)}.zip" for key in entries if key.endswith(_TOMBSTONE)}
    return {key: entry for key, entry in entries.items() if key not in removed}


def drop_removed(folder: Path, entries: dict[str, Listed]) -> int:
    """Delete copies of what was removed on purpose since it was copied; return how many there were."""
    dropped = 0
    target = DirectoryStore(folder / OBJECTS)
    for key in entries:
        bytes_key = f"{key.removesuffix(_TOMBSTONE)}.zip"
        if key.endswith(_TOMBSTONE) and target.exists(bytes_key):
            target.delete(bytes_key)
            dropped += 1
    return dropped


def expect_whole(folder: Path, entries: Iterable[Listed]) -> None:
    """Read every object of the backup.

    Raises:
        BackupError: if one is absent or damaged.
    """
    bad = [entry.key for entry in entries if not _is_sound(folder, entry)]
    if bad:
        raise BackupError(
            f"{len(bad)} objects of the backup are absent or damaged: {shortened(bad)}. Take them "
            "from another copy of this backup, or restore an older one."
        )


def _is_whole(folder: Path, entry: Listed) -> bool:
    path = folder / OBJECTS / entry.key
    return path.is_file() and path.stat().st_size == entry.size_bytes


def _is_sound(folder: Path, entry: Listed) -> bool:
    return _is_whole(folder, entry) and sha256_of(folder / OBJECTS / entry.key) == entry.sha256


def expect_no_others(entries: dict[str, Listed]) -> None:
    """Refuse an object store that holds anything but what the backup would put there.

    What an interrupted restore left is no hindrance.

    Raises:
        BackupError: if there is another object.
    """
    store = object_store()
    other = next((key for key in _own_keys(store) if key not in entries), None)
    if other is not None:
        raise BackupError(
            f"The object store in {store.place} is not empty: it holds {other}, which is not in this "
            "backup. Name an empty directory or bucket."
        )


def restore_objects(folder: Path, entries: Iterable[Listed]) -> None:
    """Put the objects of the backup into the object store.

    Raises:
        BackupError: if the object store does not take one.
    """
    source, target = DirectoryStore(folder / OBJECTS), object_store()
    for entry in entries:
        try:
            with source.open(entry.key) as file:
                target.put(entry.key, file)
        except StorageUnavailableError as error:
            raise BackupError(
                f"The object {entry.key} could not be restored: {error.detail}{_said(error)} "
                "Run the same command again: what is restored stays."
            ) from error


def shortened(keys: list[str]) -> str:
    """Name a few, for a sentence."""
    more = len(keys) - _MOST_NAMED
    return ", ".join(keys[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _said(error: StorageUnavailableError) -> str:
    return f" ({error.__cause__})" if error.__cause__ is not None else ""
