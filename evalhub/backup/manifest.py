"""What a backup says about itself: `manifest.json`, and the list of its objects."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

MANIFEST = "manifest.json"
OBJECTS = "objects"
_CHUNK = 2**20


class BackupError(Exception):
    """A backup cannot be made or restored; the message is the whole story."""


class Listed(NamedTuple):
    """An object of a backup."""

    key: str
    size_bytes: int
    sha256: str


# As buckets and file systems take them.
_LONGEST_KEY, _LONGEST_NAME = 1024, 255


def _short(name: str) -> str:
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise ValueError(f"a name of at most {_LONGEST_NAME} bytes")
    return name


class FilePart(BaseModel):
    """A file of the backup, by its name in the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[\w.-]+$"), AfterValidator(_short)]
    size_bytes: int
    sha256: str


class Manifest(BaseModel):
    """Everything that a restored installation is compared with.

    `rows` counts each table; `faults` are the objects of stored evidence that were absent or damaged
    when the backup was made, with what was wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["evalhub.backup/1"]
    release: str
    made_at: datetime
    database_kind: Literal["sqlite", "postgresql"]
    database: FilePart
    migrations: list[tuple[str, str]]
    rows: dict[str, int]
    listing: FilePart
    object_count: int
    object_bytes: int
    faults: dict[str, str]


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the backup in `folder`.

    Raises:
        BackupError: if there is none, or none that this release understands.
    """
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BackupError(
            f"{folder} holds no finished backup: {MANIFEST}, which is written last, is not there."
        ) from None
    except (OSError, ValidationError) as error:
        raise BackupError(
            f"{folder / MANIFEST} cannot be used ({_reason(error)}): name another backup, or "
            "another folder."
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place in one step: until then, the backup before it is the one."""
    fresh = folder / f"{MANIFEST}.part"
    write_durably(fresh, [manifest.model_dump_json(indent=1).encode() + b"\n"])
    fresh.replace(folder / MANIFEST)
    sync(folder)


def write_listing(path: Path, entries: Iterable[Listed]) -> None:
    """Write the list of objects, one JSON line for each."""
    write_durably(path, (json.dumps(entry._asdict()).encode() + b"\n" for entry in entries))


def read_listing(path: Path) -> Iterator[Listed]:
    """Yield the objects that the list names.

    Raises:
        BackupError: if a line names none, or one that would lie outside of the backup's objects.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            entry = _listed(line)
            if entry is None:
                raise BackupError(
                    f"Line {number} of {path} names no object that evalhub can have written. Restore"
                    " another backup."
                )
            yield entry


def _listed(line: bytes) -> Listed | None:
    try:
        told: dict[str, Any] = json.loads(line)
        key, size_bytes, sha256 = told["key"], told["size_bytes"], told["sha256"]
        parts = key.split("/")
        # A file's name need not be text.
        longest, length = max(len(os.fsencode(part)) for part in parts), len(os.fsencode(key))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    is_plain = not ("\\" in key or "\0" in key or {"", ".", ".."} & set(parts))
    is_short = length <= _LONGEST_KEY and longest <= _LONGEST_NAME
    is_told = isinstance(size_bytes, int) and isinstance(sha256, str)
    return Listed(key, size_bytes, sha256) if is_plain and is_short and is_told else None


def described_file(path: Path) -> FilePart:
    return FilePart(name=path.name, size_bytes=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    """Return the digest of a file as everything here writes it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    first = error.errors()[0]
    place = "/".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
