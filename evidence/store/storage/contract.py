"""What an object store promises, and the errors in which it says that it could not."""

import errno
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO, Protocol

from evalhub.web.errors import DomainError, NotFoundError

INCOMING = ".incoming"
CHUNK = 2**20


class StorageUnavailableError(DomainError):
    """The object store does not do its work now. `__cause__` is what it or its driver said."""

    status = 503
    code = "storage-unavailable"
    retry_after_seconds = 5
    fix = "Try the same again in a few seconds; what has a receipt is kept."


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says when a disk, or somebody's share of it, is full."""


class StorageFullError(StorageUnavailableError):
    status = 507
    code = "storage-full"
    retry_after_seconds = 10
    fix = "Whoever runs the server must make room; then try the same again. What has a receipt is kept."


class ObjectMissingError(NotFoundError):
    code = "object-missing"


class ObjectStore(Protocol):
    """Bytes under keys such as `owner/name/plan/lane/attempt/1-….zip`."""

    @property
    def place(self) -> str:
        """Say where the objects lie, to whoever runs the server."""

    def put(self, key: str, source: BinaryIO) -> None:
        """Store what `source` holds from its current position on; durable when this returns.

        Putting a key again replaces it in one step: a reader sees the old or the new object.
        """

    def open(self, key: str) -> BinaryIO:
        """Return a seekable file with the whole object."""

    def read_range(self, key: str, *, offset: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer where the object ends."""

    def exists(self, key: str) -> bool: ...

    def size(self, key: str) -> int: ...

    def delete(self, key: str) -> None:
        """Remove an object; a key that is not there is no error."""

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin with `prefix`; those of one folder come one after the other."""

    def drop_unfinished(self, *, before: datetime) -> int:
        """Remove what killed processes left half written, last touched before then; return how much."""


def checked(key: str) -> str:
    """Return a key that is a plain relative path.

    Raises:
        ValueError: if it is none.
    """
    parts = key.split("/")
    if "\\" in key or "\0" in key or {"", ".", "..", INCOMING} & set(parts):
        raise ValueError(f"{key!r} is not a plain relative key")
    return key


def missing(key: str) -> ObjectMissingError:
    """Return the error that names an object which is not there."""
    return ObjectMissingError(f"The object {key!r} is not in the object store.")
