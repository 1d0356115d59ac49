"""Objects in a directory of this machine."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from evidence.store.storage.contract import (
    CHUNK,
    FULL,
    INCOMING,
    StorageFullError,
    StorageUnavailableError,
    checked,
    missing,
)


class DirectoryStore:
    """Objects as files below a root: temporary name, fsync, rename, fsync of the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def place(self) -> str:
        return f"the folder {self.root}"

    def put(self, key: str, source: BinaryIO) -> None:
        target = self._path(key)
        with _writing():
            self._make_folder(self.root / INCOMING)
            self._make_folder(target.parent)
            part = self.root / INCOMING / secrets.token_hex(12)
            try:
                with part.open("xb") as file:
                    shutil.copyfileobj(source, file, CHUNK)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)
            _sync_folder(target.parent)

    def open(self, key: str) -> BinaryIO:
        with self._reading(key):
            return self._path(key).open("rb")

    def read_range(self, key: str, *, offset: int, length: int) -> bytes:
        with self._reading(key), self._path(key).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def exists(self, key: str) -> bool:
        with self._reading(key):
            return self._path(key).is_file()

    def size(self, key: str) -> int:
        with self._reading(key):
            return self._path(key).stat().st_size

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _writing():
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                _sync_folder(path.parent)

    def keys(self, prefix: str = "") -> Iterator[str]:
        with self._reading(prefix):
            yield from _keys_below(self.root, "", prefix)

    def drop_unfinished(self, *, before: datetime) -> int:
        # A writer that is so slow that its file goes is told so, and its client tries again.
        with _writing():
            if not (self.root / INCOMING).is_dir():
                return 0
            with os.scandir(self.root / INCOMING) as entries:
                old = [entry.path for entry in entries if _is_older(entry, before)]
            for path in old:
                Path(path).unlink(missing_ok=True)
            return len(old)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise missing(key) from None
        except OSError as error:
            raise StorageUnavailableError(
                f"The object store could not be read: {error.strerror}."
            ) from error

    def _path(self, key: str) -> Path:
        return self.root / checked(key)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        # A file is not durable while the name of its folder is not.
        _sync_folder(folder.parent)


def _keys_below(folder: Path, before: str, prefix: str) -> Iterator[str]:
    """Yield keys in the order of their text; one folder at a time is held in memory."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{e.name}/" if e.is_dir() else e.name for e in entries)
    except FileNotFoundError:
        # Nothing was ever put there, or it has just been deleted.
        return
    for name in names:
        key = before + name
        if not name.endswith("/"):
            if key.startswith(prefix):
                yield key
        elif key != f"{INCOMING}/" and (key.startswith(prefix) or prefix.startswith(key)):
            yield from _keys_below(folder / name, key, prefix)


def _is_older(entry: "os.DirEntry[str]", before: datetime) -> bool:
    try:
        return entry.stat().st_mtime < before.timestamp()
    except FileNotFoundError:
        # It has just been given its name.
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFullError("The disk of the object store is full.") from error
        raise StorageUnavailableError(
            f"The object store could not write: {error.strerror}."
        ) from error
