"""Objects in a bucket of any S3."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

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

from evidence.store.storage.contract import (
    CHUNK,
    ObjectMissingError,
    StorageUnavailableError,
    checked,
    missing,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

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


class S3Place(NamedTuple):
    """A bucket, and how to reach it. Without keys, boto3 looks for credentials as usual."""

    bucket: str
    endpoint_url: str | None
    region: str
    access_key_id: str | None
    secret_access_key: str | None


# Making a client takes 50 ms; clients are safe to share between threads.
@lru_cache(maxsize=4)
def s3_store(place: S3Place) -> "S3Store":
    """Return the store of a bucket, with one client for all threads."""
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
            self._client.put_object(Bucket=self.bucket, Key=checked(key), Body=source)

    def open(self, key: str) -> BinaryIO:
        with _asking(key), self._turn(), ExitStack() as on_failure:
            # Nameless: whatever kills this process, nothing stays behind.
            file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115 - the caller's
            on_failure.callback(file.close)
            with closing(self._object(key)["Body"]) as body:
                for chunk in body.iter_chunks(CHUNK):
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
            head = self._client.head_object(Bucket=self.bucket, Key=checked(key))
            return head["ContentLength"]

    def delete(self, key: str) -> None:
        with _asking(key):
            self._client.delete_object(Bucket=self.bucket, Key=checked(key))

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
        return self._client.get_object(Bucket=self.bucket, Key=checked(key), **part)

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
            raise missing(key) from None
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
