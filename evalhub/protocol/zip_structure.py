"""The structure of a ZIP file, distrusted: everything that can be checked without inflating a byte."""

import os
import re
import stat
import struct
import unicodedata
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

# APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.16 (end record).
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
LOCAL_SIGNATURE, _CENTRAL_SIGNATURE, _END_SIGNATURE = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_DESCRIPTOR_SIGNATURE = b"PK\7\10"
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF

_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_DESCRIPTOR_FOLLOWS, _NAME_IS_UTF8 = 0x0008, 0x0800
_KNOWN_FLAGS = 0x0006 | _DESCRIPTOR_FOLLOWS | _NAME_IS_UTF8
_EXTRA_ZIP64, _EXTRA_UNICODE_PATH = 0x0001, 0x7075
_DOS_DIRECTORY, _DOS_LINK = 0x0010, 0x0400
_UNIX = 3
_DRIVE = re.compile(r"[A-Za-z]:")

# Text of a kilobyte that says one thing over and over compresses better than any rule should mind.
_RATIO_COUNTS_FROM = 2**20


class ArchiveError(ValueError):
    """An archive is refused: `code` for programs, one sentence for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """What an archive may hold. `ratio` is size to stored size, of members over a megabyte."""

    members: int = 20_000
    member_bytes: int = 64 * 2**20
    total_bytes: int = 512 * 2**20
    ratio: int = 250


class Member(NamedTuple):
    """One file of an archive, as its directory and its local header both describe it."""

    path: str
    method: int
    crc: int
    stored_bytes: int
    size_bytes: int
    header_offset: int
    data_offset: int


class _Entry(NamedTuple):
    name: bytes
    made_by: int
    flags: int
    method: int
    crc: int
    stored_bytes: int
    size_bytes: int
    attributes: int
    header_offset: int
    extra: bytes


def sound_members(file: BinaryIO, *, limits: ArchiveLimits) -> list[Member]:
    """Return the members of a ZIP file in the order of their bytes, after every structural check.

    Raises:
        ArchiveError: if it is not exactly one plain ZIP file, or not one that is safe to read.
    """
    size = file.seek(0, os.SEEK_END)
    directory_offset, count = _end_record(file, size, limits)
    directory = exact_bytes(file, directory_offset, size - _END.size - directory_offset)
    entries = _directory(directory, count)
    paths = [_checked_path(entry) for entry in entries]
    refuse_equal_names(paths)
    _check_sizes(entries, paths, limits)
    return _laid_out(file, entries, paths, directory_offset)


def _end_record(file: BinaryIO, size: int, limits: ArchiveLimits) -> tuple[int, int]:
    """Return where the directory begins and how many entries it has."""
    if size < _END.size:
        raise ArchiveError("not_a_zip", f"A file of {size} bytes is no ZIP archive.")
    signature, disk, directory_disk, here, count, length, offset, comment = _END.unpack(
        exact_bytes(file, size - _END.size, _END.size)
    )
    if signature != _END_SIGNATURE or comment:
        raise ArchiveError(
            "no_end_record",
            "The file does not end with a ZIP end record: it is no ZIP archive, was cut short,"
            " has a comment or has bytes after its end.",
        )
    if _FULL16 in (here, count, disk, directory_disk) or _FULL32 in (length, offset):
        raise ArchiveError("zip64", "ZIP64 archives are not taken; send smaller segments.")
    if disk or directory_disk or here != count:
        raise ArchiveError("many_disks", "The archive is a part of several; send it as one file.")
    if not 0 < count <= limits.members:
        raise ArchiveError(
            "member_count", f"The archive has {count} members; 1 to {limits.members} are taken."
        )
    if offset + length != size - _END.size:
        raise ArchiveError(
            "hidden_bytes", "The archive has bytes before its beginning or after its directory."
        )
    return offset, count


def _directory(directory: bytes, count: int) -> list[_Entry]:
    entries = []
    position = 0
    for _ in range(count):
        if position + _CENTRAL.size > len(directory):
            raise ArchiveError("truncated", "The directory ends before its last entry.")
        fields = _CENTRAL.unpack_from(directory, position)
        signature, made_by, _needed, flags, method, _time, _date, crc, stored, full = fields[:10]
        name_bytes, extra_bytes, comment_bytes, disk, _internal, attributes, offset = fields[10:]
        if signature != _CENTRAL_SIGNATURE or disk:
            raise ArchiveError("broken_directory", "An entry of the directory is not one.")
        start = position + _CENTRAL.size
        position = start + name_bytes + extra_bytes + comment_bytes
        if comment_bytes or position > len(directory):
            raise ArchiveError(
                "broken_directory", "An entry has a comment, or ends beyond the directory."
            )
        name, extra = (
            directory[start : start + name_bytes],
            directory[start + name_bytes : position],
        )
        entries.append(
            _Entry(name, made_by >> 8, flags, method, crc, stored, full, attributes, offset, extra)
        )
    if position != len(directory):
        raise ArchiveError("hidden_bytes", "The directory has bytes after its last entry.")
    return entries


def _checked_path(entry: _Entry) -> str:
    path = _decoded_name(entry)
    if entry.flags & _ENCRYPTED:
        raise ArchiveError("encrypted", f"{path!r} is encrypted; send it in the clear.")
    if entry.flags & ~_KNOWN_FLAGS or entry.method not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):
        raise ArchiveError("method", f"{path!r} is neither stored nor deflated.")
    if _FULL32 in (entry.stored_bytes, entry.size_bytes, entry.header_offset):
        raise ArchiveError("zip64", f"{path!r} uses ZIP64, which is not taken.")
    _check_extra(entry.extra, path)
    refuse_unsafe_name(path)
    kind = stat.S_IFMT(entry.attributes >> 16) if entry.made_by == _UNIX else 0
    if kind not in (0, stat.S_IFREG) or entry.attributes & (_DOS_DIRECTORY | _DOS_LINK):
        raise ArchiveError("not_a_file", f"{path!r} is a folder, a link or a special file.")
    return path


def _decoded_name(entry: _Entry) -> str:
    try:
        return entry.name.decode("utf-8" if entry.flags & _NAME_IS_UTF8 else "ascii")
    except UnicodeDecodeError:
        raise ArchiveError(
            "unsafe_name", f"The name {entry.name[:80]!r} is not in the encoding that it claims."
        ) from None


def _check_extra(extra: bytes, path: str) -> None:
    position = 0
    while position < len(extra):
        if position + 4 > len(extra):
            raise ArchiveError("broken_directory", f"An extra field of {path!r} is cut short.")
        tag, length = struct.unpack_from("<2H", extra, position)
        if tag == _EXTRA_ZIP64:
            raise ArchiveError("zip64", f"{path!r} uses ZIP64, which is not taken.")
        if tag == _EXTRA_UNICODE_PATH:
            raise ArchiveError("unsafe_name", f"{path!r} has a second name in an extra field.")
        position += 4 + length
    if position > len(extra):
        raise ArchiveError("broken_directory", f"An extra field of {path!r} is cut short.")


def refuse_unsafe_name(path: str) -> None:
    parts = path.split("/")
    if "\0" in path or "\\" in path or _DRIVE.match(path) or {"", ".", ".."} & set(parts):
        raise ArchiveError("unsafe_name", f"The name {path[:200]!r} is not a plain relative path.")


def refuse_equal_names(paths: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        # Twice, as Unicode's "canonical caseless matching" asks: folding can undo what was composed.
        plain = path.lower() if path.isascii() else _normal(_normal(path).casefold())
        if plain in seen:
            raise ArchiveError(
                "equal_names",
                f"{seen[plain]!r} and {path!r} are one name where case does not count.",
            )
        seen[plain] = path


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _check_sizes(entries: list[_Entry], paths: list[str], limits: ArchiveLimits) -> None:
    total = 0
    for entry, path in zip(entries, paths, strict=True):
        total += entry.size_bytes
        if entry.size_bytes > limits.member_bytes or total > limits.total_bytes:
            raise ArchiveError(
                "too_large",
                f"{path!r} has {entry.size_bytes} bytes, {total} up to there; at most"
                f" {limits.member_bytes} a member and {limits.total_bytes} in all are taken.",
            )
        if is_too_dense(entry.size_bytes, entry.stored_bytes, ratio=limits.ratio):
            raise ArchiveError("ratio", f"{path!r} expands more than {limits.ratio} times.")
        if entry.method == zipfile.ZIP_STORED and entry.size_bytes != entry.stored_bytes:
            raise ArchiveError("size_differs", f"{path!r} is stored, yet has two sizes.")


def is_too_dense(size_bytes: int, stored_bytes: int, *, ratio: int) -> bool:
    """Return whether a member expands more than it may; a writer then stores it undeflated."""
    return size_bytes > _RATIO_COUNTS_FROM and size_bytes > ratio * max(stored_bytes, 1)


def _laid_out(
    file: BinaryIO, entries: list[_Entry], paths: list[str], directory_offset: int
) -> list[Member]:
    """Return the members, each beginning exactly where the one before it ends."""
    members = []
    position = 0
    for entry, path in sorted(
        zip(entries, paths, strict=True), key=lambda pair: pair[0].header_offset
    ):
        if entry.header_offset != position:
            code = "overlap" if entry.header_offset < position else "hidden_bytes"
            raise ArchiveError(code, f"{path!r} does not begin where the member before it ends.")
        data_offset = _local_data_offset(file, entry, path, directory_offset)
        position = data_offset + entry.stored_bytes
        if entry.flags & _DESCRIPTOR_FOLLOWS:
            position += _descriptor_bytes(file, entry, path, position)
        members.append(
            Member(
                path,
                entry.method,
                entry.crc,
                entry.stored_bytes,
                entry.size_bytes,
                entry.header_offset,
                data_offset,
            )
        )
    if position != directory_offset:
        code = "overlap" if position > directory_offset else "hidden_bytes"
        raise ArchiveError(code, "The directory does not begin where the last member ends.")
    return members


def _local_data_offset(file: BinaryIO, entry: _Entry, path: str, end: int) -> int:
    header = exact_bytes(file, entry.header_offset, LOCAL_HEADER.size + len(entry.name))
    signature, _needed, flags, method, _time, _date, crc, stored, full, name_bytes, extra_bytes = (
        LOCAL_HEADER.unpack_from(header)
    )
    if _FULL32 in (stored, full):
        raise ArchiveError("zip64", f"{path!r} uses ZIP64, which is not taken.")
    declared = (entry.crc, entry.stored_bytes, entry.size_bytes)
    sizes_agree = (crc, stored, full) == declared or (
        bool(flags & _DESCRIPTOR_FOLLOWS) and (crc, stored, full) == (0, 0, 0)
    )
    agrees = (
        signature == LOCAL_SIGNATURE
        and (flags, method) == (entry.flags, entry.method)
        and name_bytes == len(entry.name)
        and header[LOCAL_HEADER.size :] == entry.name
    )
    if not (agrees and sizes_agree):
        raise ArchiveError(
            "header_differs", f"The local header of {path!r} does not say what the directory says."
        )
    extra_offset: int = entry.header_offset + LOCAL_HEADER.size + name_bytes
    if extra_offset + extra_bytes > end:
        raise ArchiveError("overlap", f"The local header of {path!r} reaches into the directory.")
    _check_extra(exact_bytes(file, extra_offset, extra_bytes) if extra_bytes else b"", path)
    data_offset: int = extra_offset + extra_bytes
    return data_offset


def _descriptor_bytes(file: BinaryIO, entry: _Entry, path: str, position: int) -> int:
    """Return the length of a data descriptor, whose signature may be left out."""
    values = struct.pack("<3I", entry.crc, entry.stored_bytes, entry.size_bytes)
    found = exact_bytes(file, position, 12)
    if found == values:
        return 12
    if found[:4] == _DESCRIPTOR_SIGNATURE and exact_bytes(file, position + 4, 12) == values:
        return 16
    raise ArchiveError(
        "header_differs", f"The data descriptor of {path!r} does not say what the directory says."
    )


def exact_bytes(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    data = file.read(length)
    if len(data) != length:
        raise ArchiveError("truncated", "The archive ends before one of its parts.")
    return data
