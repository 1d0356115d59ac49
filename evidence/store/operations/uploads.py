"""The bytes of one upload: received into a temporary file, hashed on the way, compared with the claim."""

import hashlib
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import http_sf
from django.conf import settings

from evalhub.protocol.canonical import Digest
from evalhub.web.errors import DomainError

_CHUNK = 2**18
_SHA256_BYTES = 32
# A slow line, a busy database or a slow object store hold an upload's thread: the rest of the web
# server's threads stay free for everything else.
MOST_AT_ONCE = max(settings.WEB_THREADS * 3 // 4, 1)
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class UploadsBusyError(DomainError):
    status = 503
    code = "uploads-busy"
    fix = "Send the same segment again in a moment."
    retry_after_seconds = 1


class UploadDiskError(DomainError):
    """The server has no room to receive on its own disk, wherever objects lie in the end."""

    status = 507
    code = "upload-disk"
    fix = "Whoever runs the server must make room; then send the same segment again."
    retry_after_seconds = 10


class SegmentTooLargeError(DomainError):
    status = 413
    code = "segment-too-large"


class ArchiveTooLargeError(DomainError):
    status = 413
    code = "archive-too-large"
    fix = (
        "Have it imported on the server itself, by `manage.py import_export`, or have EVALHUB_IMPORT_BYTES"
        " raised there."
    )


class UploadIncompleteError(DomainError):
    status = 400
    code = "upload-incomplete"
    fix = "Send the same segment again."


class ContentDigestError(DomainError):
    status = 400
    code = "content-digest"
    fix = "Send the header Content-Digest: sha-256=:BASE64: with the digest of the body (RFC 9530)."


class DigestMismatchError(DomainError):
    status = 422
    code = "digest-mismatch"
    fix = "Send the segment again from the spool; nothing of this upload was kept."


class Upload(NamedTuple):
    """Received bytes, not yet durable. The file ends with the `with` block that received it."""

    file: BinaryIO
    sha256: Digest
    size_bytes: int


@contextmanager
def place_for_upload() -> Iterator[None]:
    """Bound how many uploads this process works on at once. Nobody waits: that would hold a thread too.

    Raises:
        UploadsBusyError: if as many are under way already.
    """
    if not _places.acquire(blocking=False):
        raise UploadsBusyError(f"The server is busy with {MOST_AT_ONCE} uploads already.")
    try:
        yield
    finally:
        _places.release()


@contextmanager
def received_upload(
    stream: BinaryIO, *, length: int, content_digest: str, most_bytes: int | None = None
) -> Iterator[Upload]:
    """Read `length` bytes of `stream` into a nameless file and check them against the claim.

    At most as many as a segment may have, unless `most_bytes` says otherwise.

    Raises:
        SegmentTooLargeError: before anything is read, if `length` is beyond the limit.
        ContentDigestError: if the header is absent or malformed.
        UploadIncompleteError: if the stream ends early.
        DigestMismatchError: if the bytes are others than the header says.
        UploadDiskError: if there is no room for them.
    """
    claimed = _claimed_sha256(content_digest)
    if most_bytes is None and length > settings.SEGMENT_BYTES:
        raise SegmentTooLargeError(
            f"The segment has {length} bytes; at most {settings.SEGMENT_BYTES} are taken.",
            fix="Cut smaller segments: the limit was told when the attempt was opened.",
        )
    if most_bytes is not None and length > most_bytes:
        raise ArchiveTooLargeError(
            f"The archive has {length} bytes; at most {most_bytes} are taken."
        )
    with _nameless_file() as file:
        digest = hashlib.sha256()
        left = length
        while left and (chunk := _piece(stream, min(left, _CHUNK), left, length)):
            digest.update(chunk)
            _write_whole(file, chunk)
            left -= len(chunk)
        if digest.digest() != claimed:
            raise DigestMismatchError(
                f"The body's SHA-256 is {digest.hexdigest()}, not {claimed.hex()} as Content-Digest says."
            )
        yield Upload(file, Digest(f"sha256:{digest.hexdigest()}"), length)


def _nameless_file() -> BinaryIO:
    """Return a file without a name: whatever kills this process, no half upload stays behind."""
    folder = Path(settings.DATA_DIR)
    with _on_own_disk():
        folder.mkdir(parents=True, exist_ok=True)
        # Without a buffer: that the disk is full is told by the write that fills it.
        return cast(BinaryIO, tempfile.TemporaryFile(dir=folder, buffering=0))


def nameless_copy(pieces: Iterable[bytes]) -> BinaryIO:
    """Return bytes as a file without a name, for whoever must go to and fro in them.

    Raises:
        UploadDiskError: if there is no room for them.
    """
    file = _nameless_file()
    for piece in pieces:
        _write_whole(file, piece)
    file.seek(0)
    return file


def _write_whole(file: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    with _on_own_disk():
        while left:
            left = left[file.write(left) :]


@contextmanager
def _on_own_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UploadDiskError(
            f"The server cannot keep the upload on its own disk: {error.strerror}."
        ) from error


def _piece(stream: BinaryIO, size: int, left: int, length: int) -> bytes:
    try:
        chunk = stream.read(size)
    except (OSError, EOFError):
        chunk = b""
    if not chunk:
        raise UploadIncompleteError(
            f"The upload ended after {length - left} of the {length} bytes that Content-Length says."
        )
    return chunk


def _claimed_sha256(content_digest: str) -> bytes:
    if not content_digest:
        raise ContentDigestError("The upload has no Content-Digest header.")
    try:
        members: Any = http_sf.parse(content_digest.encode(), tltype="dictionary")
    except ValueError as error:
        raise ContentDigestError(f"The Content-Digest header cannot be read: {error}.") from error
    # Each member of a dictionary is a value with its parameters.
    value = members["sha-256"][0] if "sha-256" in members else None
    if not isinstance(value, bytes) or len(value) != _SHA256_BYTES:
        raise ContentDigestError(
            "The Content-Digest header has no sha-256 value of 32 bytes between colons."
        )
    return value
