"""Every unsafe ZIP of DESIGN section 8, as bytes."""

import stat
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.evidence.store.bent_archives import (
    DEFLATED,
    DESCRIBED,
    STORED,
    UTF8,
    End,
    Entry,
    archive,
    deflated,
    described,
    extra,
    local_header,
)
from tests.evidence.store.kinds import FREE, UNKNOWN, Kind, named, sound_entries

Bend = Callable[[list[Entry]], bytes]
_EXTRA = b"lane/faults.1.ndjson"
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF


def _unsafe(name: str, code: str, words: str, bend: Bend, **fields: Any) -> Kind:
    """Return a kind that refuses a whole segment, of whose judge item the name alone can be read."""
    return Kind(
        name=name,
        origin="DESIGN 8",
        category="malformed",
        code=code,
        words=words,
        data=lambda attempt: bend(sound_entries(attempt)),
        **{"money": UNKNOWN, **fields},
    )


def _with(**fields: Any) -> Bend:
    """Return an archive with one more member."""
    return lambda sound: archive([*sound, Entry(**{"name": _EXTRA, "data": b"{}\n", **fields})])


def _result(**fields: Any) -> Bend:
    """Return an archive whose result's member is another."""
    return lambda sound: archive([sound[0], replace(sound[1], **fields), *sound[2:]])


def _ended(**fields: Any) -> Bend:
    return lambda sound: archive(sound, end=End(**fields))


_NAMES = {
    "path out of the folder": b"lane/../../up",
    "path out of the folder at once": b"../up",
    "absolute path": b"/etc/passwd",
    "path of another machine": b"//host/share",
    "drive letter": b"C:/autoexec.bat",
    "drive letter without a slash": b"c:up",
    "backslashes": b"lane\\logs\\a.1.log",
    "backslashes out of the folder": b"..\\..\\up",
    "empty component": b"lane//a",
    "component that is a dot": b"./lane/a",
    "folder as an entry": b"lane/logs/",
    "NUL within the name": b"lane/a\0.log",
    "empty name": b"",
    "name that is not the UTF-8 it claims": b"lane/\xff",
}
_UNSAFE_NAMES = [
    _unsafe(name, "unsafe_name", "name", _with(name=path)) for name, path in _NAMES.items()
]
_NO_FILES = {
    "symbolic link": stat.S_IFLNK,
    "folder by its mode": stat.S_IFDIR,
    "pipe": stat.S_IFIFO,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
    "socket": stat.S_IFSOCK,
}
_SPECIAL = [
    _unsafe(name, "not_a_file", "a folder, a link", _with(attributes=(mode | 0o777) << 16))
    for name, mode in _NO_FILES.items()
]
_EQUAL = {
    "one path twice": (b"lane/a", b"lane/a"),
    "equal but for case": (b"lane/a", b"Lane/A"),
    "equal once case is folded": ("lane/stra\u00dfe".encode(), b"lane/STRASSE"),
    "equal in NFC": ("lane/\u00e9".encode(), "lane/e\u0301".encode()),
    "equal in NFC once case is folded": ("lane/\u212b".encode(), "lane/\u00e5".encode()),
}


def _two(first: bytes, second: bytes) -> Bend:
    return lambda sound: archive([*sound, Entry(name=first), Entry(name=second, data=b"other")])


_EQUAL_NAMES = [
    _unsafe(name, "equal_names", "one name where case does not count", _two(*pair))
    for name, pair in _EQUAL.items()
]
_DIFFERENCES: dict[str, dict[str, Any]] = {
    "name": {"name": b"lane/faults.2.ndjson"},
    "length of the name": {"name": b"lane/f"},
    "flags": {"flags": 0},
    "method": {"method": STORED},
    "CRC": {"crc": 1},
    "stored size": {"stored": 4},
    "size": {"size": 4},
}
_LOCAL_DIFFERS = [
    _unsafe(
        f"local header with another {what}",
        "header_differs",
        "does not say what the directory says",
        _with(local=lie),
    )
    for what, lie in _DIFFERENCES.items()
]


def _nested(sound: list[Entry]) -> bytes:
    """Hide a whole member inside a stored one, and have the directory name it too."""
    inner = Entry(name=b"lane/faults.2.ndjson")
    quoting = Entry(
        name=_EXTRA, method=STORED, data=local_header(inner) + inner.content + inner.tail
    )
    start = len(archive(sound)) - _directory_bytes(sound) - 22
    inside = start + 30 + len(_EXTRA)
    return archive([*sound, quoting, replace(inner, offset=inside)])


def _directory_bytes(entries: list[Entry]) -> int:
    return sum(46 + len(entry.name) for entry in entries)


def _reaching(sound: list[Entry]) -> bytes:
    """Let one member's data reach over the next one's header."""
    first, second = Entry(name=_EXTRA, method=STORED), Entry(name=b"lane/faults.2.ndjson")
    length = len(first.content) + len(local_header(second)) + len(second.content)
    return archive([*sound, replace(first, both={"stored": length, "size": length}), second])


_OVERLAPS = [
    _unsafe("member inside another one", "overlap", "does not begin where", _nested),
    _unsafe(
        "two entries for one local header",
        "overlap",
        "does not begin where",
        lambda sound: archive([*sound, replace(sound[0], name=_EXTRA, offset=0)]),
    ),
    _unsafe("member that reaches over the next", "overlap", "does not begin where", _reaching),
    _unsafe(
        "member that reaches into the directory",
        "overlap",
        "does not begin where the last member ends",
        _with(method=STORED, both={"stored": 60, "size": 60}),
    ),
    _unsafe(
        "bytes between two members", "hidden_bytes", "does not begin where", _result(before=b"hide")
    ),
    _unsafe(
        "bytes before the archive",
        "hidden_bytes",
        "bytes before its beginning",
        lambda sound: archive(sound, before=b"#!/bin/sh\n"),
    ),
    _unsafe(
        "bytes before the archive that offsets allow for",
        "hidden_bytes",
        "does not begin where",
        lambda sound: archive([replace(sound[0], before=b"#!/bin/sh\n"), *sound[1:]]),
    ),
    _unsafe(
        "bytes after the directory",
        "hidden_bytes",
        "after its directory",
        _ended(before=b"hide"),
    ),
    _unsafe(
        "bytes after the archive",
        "no_end_record",
        "has bytes after its end",
        lambda sound: archive(sound, after=b"\0"),
    ),
    _unsafe(
        "archive after the archive",
        "hidden_bytes",
        "bytes before its beginning",
        lambda sound: archive(sound) + archive([Entry(name=b"segment.json")]),
    ),
    _unsafe(
        "end record within the archive's comment",
        "member_count",
        "has 0 members",
        _ended(comment=archive([])),
    ),
    _unsafe("comment of the archive", "no_end_record", "has a comment", _ended(comment=b"hello")),
    _unsafe("comment of a member", "broken_directory", "has a comment", _with(comment=b"hello")),
]
_ZIP64 = [
    _unsafe("ZIP64 count", "zip64", "ZIP64", _ended(count=_FULL16, here=_FULL16)),
    _unsafe("ZIP64 offset of the directory", "zip64", "ZIP64", _ended(offset=_FULL32)),
    _unsafe("ZIP64 sizes of a member", "zip64", "ZIP64", _with(both={"size": _FULL32})),
    _unsafe(
        "ZIP64 sizes in a local header alone", "zip64", "ZIP64", _with(local={"size": _FULL32})
    ),
    _unsafe(
        "ZIP64 field of a member",
        "zip64",
        "ZIP64",
        _with(central={"extra": extra(1, struct.pack("<Q", 3))}),
    ),
    _unsafe(
        "ZIP64 field in a local header alone",
        "zip64",
        "ZIP64",
        _with(local={"extra": extra(1, struct.pack("<2Q", 3, 3))}),
    ),
    _unsafe(
        "ZIP64 end record that nothing asks for",
        "hidden_bytes",
        "after its directory",
        _ended(before=b"PK\6\6" + struct.pack("<Q", 44) + bytes(44) + b"PK\6\7" + bytes(16)),
    ),
]


def _described(**fields: Any) -> Bend:
    return _with(flags=UTF8 | DESCRIBED, **fields)


_RIGHT = Entry(name=_EXTRA, data=b"{}\n", flags=UTF8 | DESCRIBED)
_LIES = {
    "CRC": _RIGHT.by_right._replace(crc=1),
    "stored size": _RIGHT.by_right._replace(stored=1),
    "size": _RIGHT.by_right._replace(size=1),
}
_DESCRIPTORS = [
    *(
        _unsafe(
            f"data descriptor with another {what}",
            "header_differs",
            "The data descriptor of",
            _described(descriptor=described(lie)),
        )
        for what, lie in _LIES.items()
    ),
    _unsafe(
        "data descriptor that is not there",
        "header_differs",
        "The data descriptor of",
        _described(descriptor=b""),
    ),
    _unsafe(
        "data descriptor in the form of ZIP64",
        "header_differs",
        "The data descriptor of",
        _described(
            descriptor=b"PK\7\10"
            + struct.pack("<I2Q", _RIGHT.by_right.crc, _RIGHT.by_right.stored, 3)
        ),
    ),
    _unsafe(
        "data descriptor that nothing announces",
        "hidden_bytes",
        "does not begin where",
        _with(descriptor=described(_RIGHT.by_right)),
    ),
]
_FLAGS = {"traditional": 0x0001, "strong": 0x0040 | 0x0001, "masked headers": 0x2000}
_METHODS = {
    "shrunk": 1,
    "imploded": 6,
    "Deflate64": 9,
    "bzip2": 12,
    "LZMA": 14,
    "Zstandard": 93,
    "XZ": 95,
    "AES": 99,
}
_ENCODED = [
    *(
        _unsafe(f"encrypted ({how})", "encrypted", "send it in the clear", _with(flags=UTF8 | flag))
        for how, flag in _FLAGS.items()
    ),
    *(
        _unsafe(f"method {what}", "method", "neither stored nor deflated", _with(method=method))
        for what, method in _METHODS.items()
    ),
    *(
        _unsafe(
            f"flag {flag:#x}", "method", "neither stored nor deflated", _with(flags=UTF8 | flag)
        )
        for flag in (0x0010, 0x0020, 0x1000)
    ),
    _unsafe(
        "name outside ASCII without the flag for it",
        "unsafe_name",
        "not in the encoding that it claims",
        _with(name="lane/\u00e9".encode(), flags=0),
    ),
    *(
        _unsafe(
            f"second name in an extra field of the {where}",
            "unsafe_name",
            "has a second name",
            _with(**{field: {"extra": extra(0x7075, b"\1" + bytes(4) + b"../up")}}),
        )
        for where, field in (("directory", "central"), ("local header", "local"))
    ),
    *(
        _unsafe(
            f"extra field of the {where} that is cut short",
            "broken_directory",
            "is cut short",
            _with(**{field: {"extra": struct.pack("<2H", 0x5455, 9) + b"abc"}}),
        )
        for where, field in (("directory", "central"), ("local header", "local"))
    ),
]
_MANY = 64 * 2**20 + 1
_BOMB = deflated(b"\0" * 2**21)
_SIZES = [
    _unsafe(
        "more members than are taken",
        "member_count",
        "has 20001 members; 1 to 20000 are taken",
        _ended(count=20_001, here=20_001),
    ),
    _unsafe(
        "fewer entries than told", "truncated", "ends before its last", _ended(count=9, here=9)
    ),
    _unsafe("more entries than told", "hidden_bytes", "after its last", _ended(count=2, here=2)),
    _unsafe("no members", "member_count", "has 0 members", lambda _: archive([]), money=FREE),
    _unsafe("part of several disks", "many_disks", "a part of several", _ended(disk=1)),
    _unsafe("entries on other disks", "many_disks", "a part of several", _ended(here=1)),
    _unsafe(
        "member beyond its size",
        "too_large",
        f"has {_MANY} bytes",
        _with(raw=_BOMB, both={"size": _MANY}),
    ),
    _unsafe(
        "members beyond their size together",
        "too_large",
        "536870912 in all",
        lambda sound: archive(
            [
                *sound,
                *(
                    Entry(name=b"lane/logs/%d" % n, raw=bytes(300_000), both={"size": 60 * 2**20})
                    for n in range(9)
                ),
            ]
        ),
    ),
    _unsafe("bomb", "ratio", "expands more than 250 times", _with(data=b"\0" * 2**21)),
    _unsafe(
        "stored member with two sizes",
        "size_differs",
        "two sizes",
        _with(method=STORED, both={"size": 1}),
    ),
    _unsafe("one byte", "not_a_zip", "1 bytes is no ZIP", lambda _: b"P", money=FREE),
    _unsafe("text", "no_end_record", "is no ZIP archive", lambda _: b"text " * 20, money=FREE),
    _unsafe(
        "archive that was cut short",
        "no_end_record",
        "was cut short",
        lambda sound: archive(sound)[:-1],
    ),
    _unsafe(
        "entry of the directory that is none",
        "broken_directory",
        "is not one",
        lambda sound: archive(sound).replace(b"PK\1\2", b"PK\1\3", 1),
    ),
]
_HEADER = [
    _unsafe(
        "header whose bytes are others than told",
        "crc_differs",
        "do not match their CRC-32",
        lambda sound: archive([replace(sound[0], both={"crc": 1}), *sound[1:]]),
        money=(300, 0),
    ),
    _unsafe(
        "header that is not the first member",
        "no_header",
        "not segment.json",
        lambda sound: archive([*sound[1:], sound[0]]),
        money=(300, 0),
    ),
    _unsafe(
        "header beyond reason",
        "member_too_large",
        "at most 65536",
        lambda sound: archive([replace(sound[0], data=sound[0].data + b" " * 2**16), *sound[1:]]),
        money=(300, 0),
    ),
]


def _in_item(name: str, code: str, words: str, bend: Bend) -> Kind:
    """Return a kind that shows only when a member is read: the others of its segment count."""
    return _unsafe(name, code, words, bend, path="result.json", money=(300, 0))


_FINAL_BLOCK = b"\3\0"
_CONTENTS = [
    _in_item("wrong CRC", "crc_differs", "do not match their CRC-32", _result(both={"crc": 1})),
    _in_item(
        "size below the truth",
        "size_differs",
        "larger than the declared",
        _result(both={"size": 3}),
    ),
    _in_item(
        "size beyond the truth", "size_differs", "not the declared", _result(both={"size": 9999})
    ),
    _in_item(
        "bytes that do not inflate", "broken_data", "does not inflate", _result(raw=b"\xff" * 50)
    ),
    _in_item(
        "deflated bytes that end early",
        "broken_data",
        "do not end where they should",
        _result(data=b"", raw=_FINAL_BLOCK + b"hidden", both={"method": DEFLATED}),
    ),
    _in_item(
        "deflated bytes that never end",
        "broken_data",
        "do not end where they should",
        lambda sound: archive([sound[0], replace(sound[1], raw=sound[1].content[:-4]), sound[2]]),
    ),
    _unsafe(
        "judge item with a wrong CRC",
        "crc_differs",
        "do not match their CRC-32",
        lambda sound: archive([*sound[:2], replace(sound[2], both={"crc": 1})]),
        path="judge.9.ndjson",
    ),
]

ZIP_KINDS = named(
    [
        *_UNSAFE_NAMES,
        *_SPECIAL,
        _unsafe("folder by DOS", "not_a_file", "a folder", _with(made_by=0, attributes=0x10)),
        _unsafe("junction of Windows", "not_a_file", "a link", _with(made_by=10, attributes=0x400)),
        *_EQUAL_NAMES,
        *_LOCAL_DIFFERS,
        *_OVERLAPS,
        *_ZIP64,
        *_DESCRIPTORS,
        *_ENCODED,
        *_SIZES,
        *_HEADER,
        *_CONTENTS,
    ]
)
