"""Segments as ZIP files: written in one deterministic way, and distrusted when they are read.

What the structure shows is checked by `open_archive`; what only the bytes can show (true sizes,
CRC) is checked while a member is read, which never goes beyond its declared size.
"""

import hashlib
import io
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from evalhub.protocol.canonical import Digest
from evalhub.protocol.segments import HEADER_PATH, SegmentHeader
from evalhub.protocol.zip_structure import (
    LOCAL_HEADER,
    LOCAL_SIGNATURE,
    ArchiveError,
    ArchiveLimits,
    Member,
    exact_bytes,
    is_too_dense,
    refuse_equal_names,
    refuse_unsafe_name,
    sound_members,
)

_CHUNK = 2**16
_UNIX = 3
# Room for the extra fields of a local header when one range is read around a member.
_WINDOW_SLACK = 512


class Archive(NamedTuple):
    """An archive whose structure is sound; `members` in the order of their bytes."""

    members: list[Member]


def open_archive(file: BinaryIO, *, limits: ArchiveLimits) -> Archive:
    """Return the members of a ZIP file, after every check that needs no inflating.

    Raises:
        ArchiveError: if it is not exactly one plain ZIP file, or not one that is safe to read.
    """
    return Archive(sound_members(file, limits=limits))


def read_member(file: BinaryIO, member: Member, *, cap: int) -> bytes:
    """Return the bytes of a member.

    Raises:
        ArchiveError: if it is larger than `cap`, or its bytes are not those that were declared.
    """
    return b"".join(member_chunks(file, member, cap=cap))


def member_chunks(file: BinaryIO, member: Member, *, cap: int) -> Iterator[bytes]:
    """Yield the bytes of a member piece by piece; the last piece comes before the CRC is known.

    Raises:
        ArchiveError: as `read_member`; what was yielded before must then be thrown away.
    """
    if member.size_bytes > cap:
        raise ArchiveError(
            "member_too_large",
            f"{member.path!r} has {member.size_bytes} bytes; at most {cap} are read.",
        )
    size, crc = 0, 0
    for chunk in _inflated(_stored_chunks(file, member), member):
        size += len(chunk)
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if size != member.size_bytes:
        raise ArchiveError(
            "size_differs",
            f"{member.path!r} has {size} bytes, not the declared {member.size_bytes}.",
        )
    if crc != member.crc:
        raise ArchiveError(
            "crc_differs", f"The bytes of {member.path!r} do not match their CRC-32."
        )


def stored_bytes_of(file: BinaryIO, member: Member) -> bytes:
    """Return a member's bytes as they lie, for one that cannot be inflated."""
    return exact_bytes(file, member.data_offset, member.stored_bytes)


def window_bytes(path: str, *, stored_bytes: int) -> int:
    """Return how many bytes to read from a local header so that the member lies within them."""
    return LOCAL_HEADER.size + len(path.encode()) + _WINDOW_SLACK + stored_bytes


def member_in_window(window: bytes, path: str, *, stored_bytes: int, size_bytes: int) -> bytes:
    """Return the bytes of a member from a range that begins at its local header.

    For one range request to an object store. The CRC is not looked at: the caller has a digest.

    Raises:
        ArchiveError: if `window` holds no such member, or ends before it does.
    """
    if len(window) < LOCAL_HEADER.size:
        raise ArchiveError("truncated", f"The archive ends before {path!r}.")
    fields = LOCAL_HEADER.unpack_from(window)
    signature, method, name_bytes, extra_bytes = fields[0], fields[3], fields[9], fields[10]
    start = LOCAL_HEADER.size + name_bytes + extra_bytes
    if signature != LOCAL_SIGNATURE or window[LOCAL_HEADER.size :][:name_bytes] != path.encode():
        raise ArchiveError("header_differs", f"There is no {path!r} at this place of the archive.")
    stored = window[start : start + stored_bytes]
    if len(stored) != stored_bytes:
        raise ArchiveError("truncated", f"The archive ends within {path!r}.")
    member = Member(path, method, 0, stored_bytes, size_bytes, 0, start)
    data = b"".join(_inflated([stored], member))
    if len(data) != size_bytes:
        raise ArchiveError("size_differs", f"{path!r} has {len(data)} bytes, not {size_bytes}.")
    return data


class WrittenSegment(NamedTuple):
    """What a lane must know of a segment that lies in its spool."""

    sha256: Digest
    size_bytes: int


def write_segment(
    path: Path, header: SegmentHeader, members: Iterable[tuple[str, bytes | BinaryIO]]
) -> WrittenSegment:
    """Write a segment durably: equal content gives equal bytes, and `path` appears complete or never.

    Contents are bytes, or open files that can be sought and that nobody else writes to; they stay open.

    Raises:
        ArchiveError: if two members have one name, or a name that `open_archive` would refuse.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w+b") as file:
            _write(file, header, members)
            written = _written(file)
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        # Where it failed for want of room, what it took is given back.
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return written


def write_archive(
    file: BinaryIO, header: SegmentHeader, members: Iterable[tuple[str, bytes | BinaryIO]]
) -> WrittenSegment:
    """Write a segment into an open, empty, seekable file; as `write_segment`, without its durability."""
    _write(file, header, members)
    return _written(file)


def _write(
    file: BinaryIO, header: SegmentHeader, members: Iterable[tuple[str, bytes | BinaryIO]]
) -> None:
    names: list[str] = [HEADER_PATH]
    ratio = ArchiveLimits().ratio
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=False) as archive:
        archive.writestr(_info(HEADER_PATH), header.model_dump_json(by_alias=True))
        for name, content in members:
            refuse_unsafe_name(name)
            names.append(name)
            info = _info(name)
            source = io.BytesIO(content) if isinstance(content, bytes) else content
            if _would_be_too_dense(source, ratio=ratio):
                # The server takes a member for a bomb when it deflates so well.
                info.compress_type = zipfile.ZIP_STORED
            source.seek(0)
            with archive.open(info, "w") as target:
                shutil.copyfileobj(source, target, _CHUNK)
        refuse_equal_names(names)


def _would_be_too_dense(source: BinaryIO, *, ratio: int) -> bool:
    size = source.seek(0, os.SEEK_END)
    if not is_too_dense(size, 0, ratio=ratio):
        return False
    source.seek(0)
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    deflated = 0
    while chunk := source.read(_CHUNK):
        deflated += len(deflater.compress(chunk))
        # Most members are not dense, which shows long before their end.
        if not is_too_dense(size, deflated, ratio=ratio):
            return False
    return is_too_dense(size, deflated + len(deflater.flush()), ratio=ratio)


def _info(name: str) -> zipfile.ZipInfo:
    # The time and the system of origin are fixed, so that a retry after a crash gives equal bytes.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = _UNIX
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _written(file: BinaryIO) -> WrittenSegment:
    file.flush()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return WrittenSegment(
        Digest("sha256:" + hashlib.file_digest(file, "sha256").hexdigest()),  # type: ignore[arg-type]
        size,
    )


def _stored_chunks(file: BinaryIO, member: Member) -> Iterator[bytes]:
    left, offset = member.stored_bytes, member.data_offset
    while left:
        # Each piece is sought anew, so that two members may be read in turn from one file.
        chunk = exact_bytes(file, offset, min(left, _CHUNK))
        offset += len(chunk)
        left -= len(chunk)
        yield chunk


def _inflated(stored: Iterable[bytes], member: Member) -> Iterator[bytes]:
    """Yield the content of stored or deflated bytes, never more than one byte beyond its size."""
    if member.method == zipfile.ZIP_STORED:
        yield from stored
        return
    try:
        yield from _decompressed(iter(stored), member)
    except zlib.error as error:
        raise ArchiveError("broken_data", f"{member.path!r} does not inflate: {error}.") from None


def _decompressed(stored: Iterator[bytes], member: Member) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    left = member.size_bytes + 1
    for chunk in stored:
        pending, is_full = chunk, True
        while is_full:
            room = min(left, 16 * _CHUNK)
            piece = inflater.decompress(pending, room)
            pending = inflater.unconsumed_tail
            left -= len(piece)
            yield piece
            if left <= 0:
                raise ArchiveError(
                    "size_differs",
                    f"{member.path!r} is larger than the declared {member.size_bytes} bytes.",
                )
            # Output may wait inside the inflater although it has taken all input.
            is_full = not inflater.eof and (bool(pending) or len(piece) == room)
        if inflater.eof:
            break
    if not inflater.eof or inflater.unused_data or next(stored, None):
        raise ArchiveError(
            "broken_data", f"The deflated bytes of {member.path!r} do not end where they should."
        )
