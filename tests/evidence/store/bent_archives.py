"""ZIP files written byte by byte, so that each part of them can lie."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
STORED, DEFLATED = 0, 8
UTF8, DESCRIBED = 0x0800, 0x0008
UNIX = 3


class Headers(NamedTuple):
    """What a local header, or an entry of the directory, says of a member."""

    name: bytes
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    extra: bytes


@dataclass(kw_only=True)
class Entry:
    """One member. `local`, `central` and `both` replace what its headers say by right."""

    name: bytes
    data: bytes = b"text"
    method: int = DEFLATED
    flags: int = UTF8
    raw: bytes | None = None
    """What lies in the archive; deflated or stored `data` unless given."""
    both: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    central: dict[str, Any] = field(default_factory=dict)
    attributes: int = 0o100600 << 16
    made_by: int = UNIX
    comment: bytes = b""
    descriptor: bytes | None = None
    """What lies after the data; a right one where the flag says so, unless given."""
    before: bytes = b""
    offset: int | None = None
    """Where the directory says that it begins; with this, nothing is written but the entry there."""

    @property
    def content(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return deflated(self.data) if self.method == DEFLATED else self.data

    @property
    def by_right(self) -> Headers:
        content, crc = self.content, zlib.crc32(self.data)
        right = Headers(self.name, self.flags, self.method, crc, len(content), len(self.data), b"")
        return right._replace(**self.both)

    @property
    def tail(self) -> bytes:
        if self.descriptor is not None:
            return self.descriptor
        told = self.by_right
        return described(told) if told.flags & DESCRIBED else b""


@dataclass(kw_only=True)
class End:
    """The end record; each number is right unless given."""

    disk: int = 0
    here: int | None = None
    count: int | None = None
    length: int | None = None
    offset: int | None = None
    comment: bytes = b""
    before: bytes = b""
    """Between the directory and the record."""


def archive(
    entries: Sequence[Entry], *, end: End | None = None, before: bytes = b"", after: bytes = b""
) -> bytes:
    """Return the bytes of an archive, with others before and after them."""
    end = end or End()
    body, offsets = bytearray(), []
    for entry in entries:
        if entry.offset is not None:
            offsets.append(entry.offset)
            continue
        body += entry.before
        offsets.append(len(body))
        body += local_header(entry) + entry.content + entry.tail
    directory = b"".join(
        _central_header(entry, offset) for entry, offset in zip(entries, offsets, strict=True)
    )
    record = _END.pack(
        b"PK\5\6",
        end.disk,
        end.disk,
        len(entries) if end.here is None else end.here,
        len(entries) if end.count is None else end.count,
        len(directory) if end.length is None else end.length,
        len(body) if end.offset is None else end.offset,
        len(end.comment),
    )
    return before + bytes(body) + directory + end.before + record + end.comment + after


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def described(told: Headers, *, signature: bytes = b"PK\7\10") -> bytes:
    """Return the data descriptor of a member."""
    return signature + struct.pack("<3I", told.crc, told.stored, told.size)


def extra(tag: int, data: bytes) -> bytes:
    """Return one extra field."""
    return struct.pack("<2H", tag, len(data)) + data


def local_header(entry: Entry) -> bytes:
    right = entry.by_right
    if right.flags & DESCRIBED:
        right = right._replace(crc=0, stored=0, size=0)
    told = right._replace(**entry.local)
    return (
        _LOCAL.pack(
            b"PK\3\4",
            20,
            told.flags,
            told.method,
            0,
            0x21,
            told.crc,
            told.stored,
            told.size,
            len(told.name),
            len(told.extra),
        )
        + told.name
        + told.extra
    )


def _central_header(entry: Entry, offset: int) -> bytes:
    told = entry.by_right._replace(**entry.central)
    return (
        _CENTRAL.pack(
            b"PK\1\2",
            entry.made_by << 8 | 20,
            20,
            told.flags,
            told.method,
            0,
            0x21,
            told.crc,
            told.stored,
            told.size,
            len(told.name),
            len(told.extra),
            len(entry.comment),
            0,
            0,
            entry.attributes,
            offset,
        )
        + told.name
        + told.extra
        + entry.comment
    )
