"""Where bytes lie: a directory, or any S3. Nothing else in the project speaks to either.

An object is written once, under a key that names its content, and `put` returns when it is durable.
"""

import errno
import io
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, cast

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from django.conf import settings

from evalhub.web.disks import standing_part
from evalhub.web.errors import DomainError, NotFoundError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

_INCOMING = ".incoming"
_PROBE_FOLDER = ".probe"
_CHUNK = 2**20
# A downloaded object of a usual size stays in memory.
_SPOOLED_BYTES = 4 * 2**20
# A bucket that answers nothing holds a thread for two tries of these, not for minutes.
_CONNECT_SECONDS = 3
_ANSWER_SECONDS = 5
_TRIES = 2
# So many threads may read from a bucket at once, and the others wait so long for their turn: while
# it is slow, the rest of the web server's threads stay free for what needs no objects.
MOST_READERS = max(settings.WEB_THREADS // 8, 1)
_TURN_SECONDS = 1


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


def object_store() -> ObjectStore:
    """Return the store that the settings name: a bucket if there is one, else the directory."""
    if settings.S3_BUCKET:
        place = S3Place(
            settings.S3_BUCKET,
            settings.S3_ENDPOINT_URL,
            settings.S3_REGION,
            settings.S3_ACCESS_KEY_ID,
            settings.S3_SECRET_ACCESS_KEY,
        )
        return _s3_store(place)
    return DirectoryStore(Path(settings.OBJECTS_DIR))


def folder_of_objects() -> Path | None:
    """Return where the objects lie on this machine; None where a bucket holds them."""
    return None if settings.S3_BUCKET else Path(settings.OBJECTS_DIR)


def is_configured() -> bool:
    """Say whether the settings name a place that could be written to. Asks no server."""
    folder = folder_of_objects()
    if folder is not None:
        standing = standing_part(folder)
        return standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)
    try:
        object_store()
    except (ValueError, BotoCoreError):
        return False
    return True


def probe() -> None:
    """Write a small object, read it back and delete it: for whoever wants to know that all that works.

    Raises:
        StorageUnavailableError: if one of the three fails, in a sentence for whoever runs the server:
            it names the place and what was said there.
    """
    store = object_store()
    key, content = f"{_PROBE_FOLDER}/{secrets.token_hex(8)}", secrets.token_bytes(64)
    try:
        store.put(key, io.BytesIO(content))
        with store.open(key) as file:
            found = file.read()
        store.delete(key)
    except DomainError as error:
        raise StorageUnavailableError(
            f"The object store in {store.place} failed a probe: {error.detail}"
            f" ({error.__cause__ or 'nothing more was said'})"
        ) from error
    if found != content:
        raise StorageUnavailableError(
            f"The object store in {store.place} gave other bytes back than were put there."
        )


def _checked(key: str) -> str:
    parts = key.split("/")
    if "\\" in key or "\0" in key or {"", ".", "..", _INCOMING} & set(parts):
        raise ValueError(f"{key!r} is not a plain relative key")
    return key


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
            self._make_folder(self.root / _INCOMING)
            self._make_folder(target.parent)
            part = self.root / _INCOMING / secrets.token_hex(12)
            try:
                with part.open("xb") as file:
                    shutil.copyfileobj(source, file, _CHUNK)
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
            if not (self.root / _INCOMING).is_dir():
                return 0
            with os.scandir(self.root / _INCOMING) as entries:
                old = [entry.path for entry in entries if _is_older(entry, before)]
            for path in old:
                Path(path).unlink(missing_ok=True)
            return len(old)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise _missing(key) from None
        except OSError as error:
            raise StorageUnavailableError(
                f"The object store could not be read: {error.strerror}."
            ) from error

    def _path(self, key: str) -> Path:
        return self.root / _checked(key)

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
        elif key != f"{_INCOMING}/" and (key.startswith(prefix) or prefix.startswith(key)):
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


def _missing(key: str) -> ObjectMissingError:
    return ObjectMissingError(f"The object {key!r} is not in the object store.")


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


class S3Place(NamedTuple):
    """A bucket, and how to reach it. Without keys, boto3 looks for credentials as usual."""

    bucket: str
    endpoint_url: str | None
    region: str
    access_key_id: str | None
    secret_access_key: str | None


# Making a client takes 50 ms; clients are safe to share between threads.
@lru_cache(maxsize=4)
def _s3_store(place: S3Place) -> "S3Store":
    return S3Store(place)


class S3Store:
    """Objects in a bucket. S3 answers a PUT when the object is durable."""

    def __init__(self, place: S3Place) -> None:
        self.bucket = place.bucket
        self._endpoint_url = place.endpoint_url
        self._turns = threading.BoundedSemaphore(MOST_READERS)
        self._client: S3Client = boto3.client(
            "s3",
            endpoint_url=place.endpoint_url,
            region_name=place.region,
            aws_access_key_id=place.access_key_id,
            aws_secret_access_key=place.secret_access_key,
            config=Config(
                signature_version="s3v4",
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_ANSWER_SECONDS,
                retries={"total_max_attempts": _TRIES, "mode": "standard"},
                max_pool_connections=settings.WEB_THREADS,
                s3={"addressing_style": "path" if place.endpoint_url else "auto"},
            ),
        )

    @property
    def place(self) -> str:
        return f"the bucket {self.bucket!r} at {self._endpoint_url or 'AWS'}"

    def put(self, key: str, source: BinaryIO) -> None:
        with _asking(key):
            self._client.put_object(Bucket=self.bucket, Key=_checked(key), Body=source)

    def open(self, key: str) -> BinaryIO:
        with _asking(key), self._turn(), ExitStack() as on_failure:
            # Nameless: whatever kills this process, nothing stays behind.
            file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115 - the caller's
            on_failure.callback(file.close)
            with closing(self._object(key)["Body"]) as body:
                for chunk in body.iter_chunks(_CHUNK):
                    file.write(chunk)
            file.seek(0)
            on_failure.pop_all()
            return cast(BinaryIO, file)

    def read_range(self, key: str, *, offset: int, length: int) -> bytes:
        with _asking(key), self._turn():
            span = f"bytes={offset}-{offset + length - 1}"
            with closing(self._object(key, Range=span)["Body"]) as body:
                return body.read()

    def exists(self, key: str) -> bool:
        try:
            self.size(key)
        except ObjectMissingError:
            return False
        return True

    def size(self, key: str) -> int:
        with _asking(key):
            head = self._client.head_object(Bucket=self.bucket, Key=_checked(key))
            return head["ContentLength"]

    def delete(self, key: str) -> None:
        with _asking(key):
            self._client.delete_object(Bucket=self.bucket, Key=_checked(key))

    def keys(self, prefix: str = "") -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2")
        with _asking(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for entry in page.get("Contents", []):
                    yield entry["Key"]

    def drop_unfinished(self, *, before: datetime) -> int:
        # A PUT that was broken off leaves nothing in a bucket.
        return 0

    def _object(self, key: str, **part: Any) -> "GetObjectOutputTypeDef":
        return self._client.get_object(Bucket=self.bucket, Key=_checked(key), **part)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise StorageUnavailableError(
                "The object store is slow, and others are waiting for it already."
            )
        try:
            yield
        finally:
            self._turns.release()


def _refused(error: ClientError, answer: int | None, code: str) -> str:
    sentence = (
        f"The object store refused with {answer}{f' ({code})' if code != str(answer) else ''}"
    )
    if answer != HTTPStatus.FORBIDDEN:
        return f"{sentence}."
    # S3 takes no request whose time is off by a quarter of an hour; the answer to a HEAD cannot say so.
    date = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "unknown")
    return (
        f"{sentence}: the credentials are wrong, or this server's clock is (the store's: {date})."
    )


@contextmanager
def _asking(key: str) -> Iterator[None]:
    """Say in our words what boto3 raises. The store's address is for the cause: not the caller's to know."""
    try:
        yield
    except ClientError as error:
        answer = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = error.response.get("Error", {}).get("Code", "")
        if answer == HTTPStatus.NOT_FOUND and code != "NoSuchBucket":
            raise _missing(key) from None
        raise StorageUnavailableError(_refused(error, answer, code)) from error
    except (ConnectTimeoutError, EndpointConnectionError) as error:
        raise StorageUnavailableError("The object store cannot be reached.") from error
    except ReadTimeoutError as error:
        raise StorageUnavailableError(
            f"The object store did not answer within {_ANSWER_SECONDS} seconds."
        ) from error
    except BotoCoreError as error:
        raise StorageUnavailableError("The object store broke off in the middle.") from error
    except OSError as error:
        # Of the file that an object is read into, or sent from.
        raise StorageUnavailableError(
            f"The server's own disk failed beside the object store: {error.strerror}."
        ) from error
