"""Where bytes lie: a directory, or any S3. Nothing else in the project speaks to either.

An object is written once, under a key that names its content, and `put` returns when it is durable.
"""

import io
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from evalhub.web.errors import DomainError, NotFoundError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

logger = logging.getLogger(__name__)

_INCOMING = ".incoming"
_PROBE_FOLDER = ".probe"
_CHUNK = 2**20
# A downloaded object of a usual size stays in memory.
_SPOOLED_BYTES = 4 * 2**20


class StorageUnavailableError(DomainError):
    """The object store does not do its work now. `__cause__` is what it or its driver said."""

    status = 503
    code = "storage-unavailable"
    retry_after_seconds = 5
    fix = "Try the same again in a few seconds; what has a receipt is kept."


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
        """Yield the keys that begin with `prefix`, in order."""


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


def _checked(key: str) -> PurePosixPath:
    parts = key.split("/")
    if "\\" in key or "\0" in key or {"", ".", "..", _INCOMING} & set(parts):
        raise ValueError(f"{key!r} is not a plain relative key")
    return PurePosixPath(key)


class DirectoryStore:
    """Objects as files below a root: temporary name, fsync, rename, fsync of the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def place(self) -> str:
        return f"the folder {self.root}"

    def put(self, key: str, source: BinaryIO) -> None:
        target = self._path(key)
        try:
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
        except OSError as error:
            raise StorageUnavailableError(
                f"The object store could not write: {error.strerror}."
            ) from error

    def open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except FileNotFoundError:
            raise _missing(key) from None
        except OSError as error:
            raise _unreadable(error) from error

    def read_range(self, key: str, *, offset: int, length: int) -> bytes:
        with self.open(key) as file:
            try:
                file.seek(offset)
                return file.read(length)
            except OSError as error:
                raise _unreadable(error) from error

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def size(self, key: str) -> int:
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            raise _missing(key) from None

    def delete(self, key: str) -> None:
        path = self._path(key)
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            _sync_folder(path.parent)

    def keys(self, prefix: str = "") -> Iterator[str]:
        found = (
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file() and self.root / _INCOMING not in path.parents
        )
        yield from sorted(key for key in found if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        return self.root / _checked(key)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        # A file is not durable while the name of its folder is not.
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _missing(key: str) -> ObjectMissingError:
    return ObjectMissingError(f"The object {key!r} is not in the object store.")


def _unreadable(error: OSError) -> StorageUnavailableError:
    return StorageUnavailableError(f"The object store could not be read: {error.strerror}.")


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
        self._client: S3Client = boto3.client(
            "s3",
            endpoint_url=place.endpoint_url,
            region_name=place.region,
            aws_access_key_id=place.access_key_id,
            aws_secret_access_key=place.secret_access_key,
            config=Config(
                signature_version="s3v4",
                connect_timeout=5,
                read_timeout=30,
                retries={"max_attempts": 3, "mode": "standard"},
                s3={"addressing_style": "path" if place.endpoint_url else "auto"},
            ),
        )

    @property
    def place(self) -> str:
        return f"the bucket {self.bucket!r} at {self._endpoint_url or 'AWS'}"

    def put(self, key: str, source: BinaryIO) -> None:
        _checked(key)
        try:
            self._client.put_object(Bucket=self.bucket, Key=key, Body=source)
        except (BotoCoreError, ClientError) as error:
            raise _unavailable(error) from error

    def open(self, key: str) -> BinaryIO:
        _checked(key)
        try:
            body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            with closing(body), ExitStack() as on_failure:
                file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115 - the caller's
                on_failure.callback(file.close)
                for chunk in body.iter_chunks(_CHUNK):
                    file.write(chunk)
                on_failure.pop_all()
        except (BotoCoreError, ClientError) as error:
            raise _failure(error, key) from error
        file.seek(0)
        return cast(BinaryIO, file)

    def read_range(self, key: str, *, offset: int, length: int) -> bytes:
        _checked(key)
        try:
            answer = self._client.get_object(
                Bucket=self.bucket, Key=key, Range=f"bytes={offset}-{offset + length - 1}"
            )
            return answer["Body"].read()
        except (BotoCoreError, ClientError) as error:
            raise _failure(error, key) from error

    def exists(self, key: str) -> bool:
        try:
            self.size(key)
        except ObjectMissingError:
            return False
        return True

    def size(self, key: str) -> int:
        _checked(key)
        try:
            return self._client.head_object(Bucket=self.bucket, Key=key)["ContentLength"]
        except (BotoCoreError, ClientError) as error:
            raise _failure(error, key) from error

    def delete(self, key: str) -> None:
        _checked(key)
        try:
            self._client.delete_object(Bucket=self.bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            raise _failure(error, key) from error

    def keys(self, prefix: str = "") -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2")
        try:
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for entry in page.get("Contents", []):
                    yield entry["Key"]
        except (BotoCoreError, ClientError) as error:
            raise _unavailable(error) from error


def _failure(error: BotoCoreError | ClientError, key: str) -> DomainError:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status == 404 and error.response.get("Error", {}).get("Code") != "NoSuchBucket":
            return _missing(key)
    return _unavailable(error)


def _unavailable(error: BotoCoreError | ClientError) -> StorageUnavailableError:
    # The address of the store is the operator's to know, not the caller's.
    logger.warning("object store failed: %s", error)
    return StorageUnavailableError("The object store did not answer as it should.")
