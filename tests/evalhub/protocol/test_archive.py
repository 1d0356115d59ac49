"""Archives: written alike, read back alike, and refused in a sentence whenever they lie."""

import io
import random
import stat
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalhub.protocol.archive import (
    member_chunks,
    member_in_window,
    open_archive,
    read_member,
    stored_bytes_of,
    window_bytes,
    write_archive,
    write_segment,
)
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.segments import HEADER_PATH, SegmentHeader
from evalhub.protocol.zip_structure import ArchiveError, ArchiveLimits, Member

HEADER = SegmentHeader(
    project="acme/agent",
    plan="sha256:" + "0" * 64,
    lane="ordinary-1",
    attempt="att_0123456789",
    seq=1,
    class_="bulk",
    tested_sha=None,
    created_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
)
MEMBERS = {"lane/logs/a.1.log": b"hello " * 500, "lane/logs/b.1.log": b""}
LIMITS = ArchiveLimits()
SMALL = ArchiveLimits(members=4, member_bytes=2**21, total_bytes=3 * 2**20, ratio=100)


def segment(members: dict[str, bytes] = MEMBERS) -> bytes:
    file = io.BytesIO()
    write_archive(file, HEADER, members.items())
    return file.getvalue()


def zipped(
    *names: str, content: bytes = b"text", change: Callable[[zipfile.ZipInfo], None] | None = None
) -> bytes:
    """Return an archive made by the standard library, whose entries `change` may bend."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(info)
            archive.writestr(info, content)
    return file.getvalue()


class Unseekable(io.RawIOBase):
    """A pipe: zipfile writes data descriptors after its members."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.written += bytes(data)  # type: ignore[call-overload]
        return len(bytes(data))  # type: ignore[call-overload]


def described(*names: str) -> bytes:
    pipe = Unseekable()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"text")
    return bytes(pipe.written)


def refusal(data: bytes, limits: ArchiveLimits = LIMITS) -> str:
    """Return the code with which an archive is refused, on opening or on reading its members."""
    with pytest.raises(ArchiveError) as caught:
        read_all(data, limits)
    assert caught.value.sentence.endswith(".")
    return caught.value.code


def read_all(data: bytes, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    file = io.BytesIO(data)
    members = open_archive(file, limits=limits).members
    return {m.path: read_member(file, m, cap=limits.member_bytes) for m in members}


def replaced(data: bytes, old: bytes, new: bytes, *, count: int = -1) -> bytes:
    assert old in data
    return data.replace(old, new, count)


def test_what_was_written_is_read_back() -> None:
    assert {k: v for k, v in read_all(segment()).items() if k != HEADER_PATH} == MEMBERS


def test_header_comes_first() -> None:
    file = io.BytesIO(segment())

    first = open_archive(file, limits=LIMITS).members[0]

    assert first.path == HEADER_PATH
    assert SegmentHeader.model_validate_json(read_member(file, first, cap=10_000)) == HEADER


def test_standard_library_reads_it_too() -> None:
    with zipfile.ZipFile(io.BytesIO(segment())) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [HEADER_PATH, *MEMBERS]


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    log = io.BytesIO(MEMBERS["lane/logs/a.1.log"])

    first = write_segment(tmp_path / "1.zip", HEADER, MEMBERS.items())
    again = write_segment(
        tmp_path / "2.zip", HEADER, [("lane/logs/a.1.log", log), ("lane/logs/b.1.log", b"")]
    )

    assert first == again
    data = (tmp_path / "1.zip").read_bytes()
    assert first == (bytes_digest(data), len(data))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.zip", "2.zip"]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../up", "a/../b", "a\\b", "", "C:/a", "a/", "a\0b"]
)
def test_writer_refuses_names_that_a_reader_would(name: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        write_archive(io.BytesIO(), HEADER, [(name, b"")])

    assert caught.value.code == "unsafe_name"


def test_writer_refuses_one_name_twice() -> None:
    with pytest.raises(ArchiveError) as caught:
        write_archive(io.BytesIO(), HEADER, [("lane/A", b"1"), ("lane/a", b"2")])

    assert caught.value.code == "equal_names"


def test_archive_with_data_descriptors_is_read() -> None:
    assert read_all(described("a", "b")) == {"a": b"text", "b": b"text"}


def test_stored_members_are_read() -> None:
    def store(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_STORED

    assert read_all(zipped("a", change=store)) == {"a": b"text"}


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 100, segment()[:-1], segment()[:-500]])
def test_file_that_does_not_end_as_a_zip_is_refused(data: bytes) -> None:
    assert refusal(data) in {"not_a_zip", "no_end_record"}


def test_bytes_before_and_after_are_refused() -> None:
    data = segment()

    assert refusal(b"#!/bin/sh\n" + data) == "hidden_bytes"
    assert refusal(data + b"\0") == "no_end_record"


def test_prefix_that_the_offsets_take_into_account_is_refused() -> None:
    file = io.BytesIO(b"#!/bin/sh\n")
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("a", b"text")

    assert refusal(file.getvalue()) == "hidden_bytes"


def test_comment_of_the_archive_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"text")
        archive.comment = b"hello"

    assert refusal(file.getvalue()) == "no_end_record"


def test_comment_of_an_entry_is_refused() -> None:
    def comment(info: zipfile.ZipInfo) -> None:
        info.comment = b"hello"

    assert refusal(zipped("a", change=comment)) == "broken_directory"


def test_zip64_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("a", "w", force_zip64=True) as member:
        member.write(b"text")

    assert refusal(file.getvalue()) == "zip64"


def test_zip64_values_of_the_end_record_are_refused() -> None:
    data = bytearray(segment())
    struct.pack_into("<H", data, len(data) - 12, 0xFFFF)
    struct.pack_into("<H", data, len(data) - 14, 0xFFFF)

    assert refusal(bytes(data)) == "zip64"


def test_too_many_members_are_refused_before_the_directory_is_read() -> None:
    data = bytearray(zipped("a"))
    # The directory has one entry; the refusal is for what the end record says.
    struct.pack_into("<2H", data, len(data) - 14, 5, 5)

    assert refusal(bytes(data), SMALL) == "member_count"


def test_directory_with_fewer_entries_than_told_is_refused() -> None:
    data = bytearray(zipped("a"))
    struct.pack_into("<2H", data, len(data) - 14, 2, 2)

    assert refusal(bytes(data)) == "truncated"


def test_directory_with_more_entries_than_told_is_refused() -> None:
    data = bytearray(zipped("a", "b"))
    struct.pack_into("<2H", data, len(data) - 14, 1, 1)

    assert refusal(bytes(data)) == "hidden_bytes"


def test_entry_of_the_directory_that_is_none_is_refused() -> None:
    data = zipped("a", "b")

    second = data.rindex(b"PK\1\2")

    assert refusal(data[:second] + b"PK\1\3" + data[second + 4 :]) == "broken_directory"


# Offsets within an entry of the directory: stored size, size, offset of the local header.
@pytest.mark.parametrize("offset", [20, 24, 42])
def test_zip64_values_of_an_entry_are_refused(offset: int) -> None:
    data = bytearray(zipped("a"))
    struct.pack_into("<I", data, data.index(b"PK\1\2") + offset, 0xFFFFFFFF)

    assert refusal(bytes(data)) == "zip64"


def test_zip64_field_of_an_entry_is_refused() -> None:
    def add(info: zipfile.ZipInfo) -> None:
        info.extra = struct.pack("<2HQ", 1, 8, 4)

    assert refusal(zipped("a", change=add)) == "zip64"


def test_other_extra_fields_mean_nothing() -> None:
    def add(info: zipfile.ZipInfo) -> None:
        info.extra = struct.pack("<2HBI", 0x5455, 5, 1, 0)

    assert read_all(zipped("a", change=add)) == {"a": b"text"}


@pytest.mark.parametrize("extra", [b"abc", struct.pack("<2H", 0x5455, 9) + b"abc"])
def test_extra_field_of_a_local_header_that_is_cut_short_is_refused(extra: bytes) -> None:
    data = zipped("a")
    bent = bytearray(data[:31] + extra + data[31:])
    struct.pack_into("<H", bent, 28, len(extra))
    struct.pack_into("<I", bent, len(bent) - 6, data.index(b"PK\1\2") + len(extra))

    assert refusal(bytes(bent)) == "broken_directory"


@pytest.mark.parametrize("length", [500, 60_000])
def test_local_header_that_reaches_into_the_directory_is_refused(length: int) -> None:
    data = bytearray(zipped("a"))
    struct.pack_into("<H", data, 28, length)

    assert refusal(bytes(data)) == "overlap"


@pytest.mark.parametrize("count", [60, 100_000])
def test_member_that_reaches_into_the_directory_is_refused(count: int) -> None:
    def store(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_STORED

    data = bytearray(zipped("a", change=store))
    for start in (18, data.index(b"PK\1\2") + 20):
        struct.pack_into("<2I", data, start, count, count)

    assert refusal(bytes(data)) == "overlap"


def test_data_descriptor_may_lack_its_signature() -> None:
    data = described("a")
    start = data.index(b"PK\7\10")
    bent = bytearray(data[:start] + data[start + 4 :])
    struct.pack_into("<I", bent, len(bent) - 6, data.index(b"PK\1\2") - 4)

    assert read_all(bytes(bent)) == {"a": b"text"}


def test_data_descriptor_beyond_the_end_is_refused() -> None:
    data = bytearray(described("a"))
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 20, 100_000)

    assert refusal(bytes(data)) == "truncated"


def test_archive_without_members_is_refused() -> None:
    assert refusal(zipped()) == "member_count"


def test_archive_of_several_disks_is_refused() -> None:
    data = bytearray(zipped("a"))
    struct.pack_into("<H", data, len(data) - 18, 1)

    assert refusal(bytes(data)) == "many_disks"


def test_member_beyond_its_size_is_refused() -> None:
    assert refusal(zipped("a", content=bytes(range(256)) * 2**14), SMALL) == "too_large"


def test_members_beyond_their_size_together_are_refused() -> None:
    content = random.Random(1).randbytes(2**21)  # noqa: S311 - only has to be dense

    assert read_all(zipped("a", content=content), SMALL) == {"a": content}
    assert refusal(zipped("a", "b", content=content), SMALL) == "too_large"


def test_bomb_is_refused_by_its_ratio() -> None:
    assert refusal(zipped("a", content=b"\0" * 2**21), SMALL) == "ratio"


@pytest.mark.parametrize("flag", [0x0001, 0x0040, 0x2000])
def test_encryption_is_refused(flag: int) -> None:
    data = bytearray(zipped("a"))
    struct.pack_into("<H", data, 6, flag)
    struct.pack_into("<H", data, data.index(b"PK\1\2") + 8, flag)

    assert refusal(bytes(data)) == "encrypted"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_are_refused(method: int) -> None:
    def use(info: zipfile.ZipInfo) -> None:
        info.compress_type = method

    assert refusal(zipped("a", change=use)) == "method"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_links_folders_and_special_files_are_refused(kind: int) -> None:
    def become(info: zipfile.ZipInfo) -> None:
        info.create_system = 3
        info.external_attr = (kind | 0o777) << 16

    assert refusal(zipped("a", change=become)) == "not_a_file"


def test_folder_of_dos_is_refused() -> None:
    def become(info: zipfile.ZipInfo) -> None:
        info.create_system = 0
        info.external_attr = 0x10

    assert refusal(zipped("a", change=become)) == "not_a_file"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../b", "a//b", "./a", "C:/a", "a/"])
def test_unsafe_names_are_refused(name: str) -> None:
    assert refusal(zipped(name)) == "unsafe_name"


@pytest.mark.parametrize("name", [b"a\\b", b"a\0b", b"a\xe9b"])
def test_names_that_mean_something_elsewhere_are_refused(name: bytes) -> None:
    assert refusal(replaced(zipped("aXb"), b"aXb", name)) == "unsafe_name"


def test_second_name_in_an_extra_field_is_refused() -> None:
    def add(info: zipfile.ZipInfo) -> None:
        info.extra = struct.pack("<2HBI", 0x7075, 9, 1, 0) + b"evil"

    assert refusal(zipped("a", change=add)) == "unsafe_name"


def test_extra_field_that_is_cut_short_is_refused() -> None:
    def add(info: zipfile.ZipInfo) -> None:
        info.extra = struct.pack("<2H", 0x5455, 9) + b"abc"

    assert refusal(zipped("a", change=add)) == "broken_directory"


@pytest.mark.parametrize(
    "names", [("a", "A"), ("stra\u00dfe", "STRASSE"), ("\u00e9", "e\u0301"), ("\u212b", "\u00e5")]
)
def test_names_that_are_equal_elsewhere_are_refused(names: tuple[str, str]) -> None:
    assert refusal(zipped(*names)) == "equal_names"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_one_name_twice_is_refused() -> None:
    assert refusal(zipped("a", "a")) == "equal_names"


# Offsets within the local header: flags, method, CRC, stored size, size, name.
@pytest.mark.parametrize("offset", [6, 8, 14, 18, 22, 30])
def test_local_header_that_differs_from_the_directory_is_refused(offset: int) -> None:
    data = bytearray(zipped("a"))
    data[offset] ^= 2

    assert refusal(bytes(data)) == "header_differs"


def test_data_descriptor_that_differs_is_refused() -> None:
    data = bytearray(described("a"))
    data[data.index(b"PK\7\10") + 4] ^= 1

    assert refusal(bytes(data)) == "header_differs"


def test_members_that_overlap_are_refused() -> None:
    data = bytearray(zipped("a", "b"))
    second = data.rindex(b"PK\1\2")
    struct.pack_into("<I", data, second + 42, 0)

    assert refusal(bytes(data)) == "overlap"


def test_bytes_between_members_are_refused() -> None:
    data = zipped("a", "b")
    at, directory = data.index(b"PK\3\4", 4), data.index(b"PK\1\2")
    bent = bytearray(data[:at] + b"hide" + data[at:])
    struct.pack_into("<I", bent, bent.rindex(b"PK\1\2") + 42, at + 4)
    struct.pack_into("<I", bent, len(bent) - 6, directory + 4)

    assert refusal(bytes(bent)) == "hidden_bytes"


def both_headers(data: bytes, *, local: int, central: int, value: int) -> bytes:
    bent = bytearray(data)
    struct.pack_into("<I", bent, local, value)
    struct.pack_into("<I", bent, bent.index(b"PK\1\2") + central, value)
    return bytes(bent)


@pytest.mark.parametrize("size", [3, 5, 500])
def test_size_that_both_headers_lie_about_is_found_while_inflating(size: int) -> None:
    assert refusal(both_headers(zipped("a"), local=22, central=24, value=size)) == "size_differs"


def test_inflating_stops_at_the_declared_size() -> None:
    data = both_headers(zipped("a", content=b"\0" * 2**24), local=22, central=24, value=10)
    file = io.BytesIO(data)
    member = open_archive(file, limits=LIMITS).members[0]

    chunks: list[bytes] = []
    with pytest.raises(ArchiveError, match="larger than the declared 10 bytes"):
        chunks.extend(member_chunks(file, member, cap=100))

    assert chunks == [b"\0" * 11]


def test_stored_member_with_two_sizes_is_refused() -> None:
    def store(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_STORED

    data = both_headers(zipped("a", change=store), local=22, central=24, value=3)

    assert refusal(data) == "size_differs"


def test_crc_is_compared() -> None:
    assert refusal(both_headers(zipped("a"), local=14, central=16, value=7)) == "crc_differs"


def test_deflated_bytes_that_end_early_are_refused() -> None:
    data = zipped("a", content=b"abc" * 1000)
    offset = open_archive(io.BytesIO(data), limits=LIMITS).members[0].data_offset
    bent = bytearray(data)
    # An empty final block: the stream ends here, and what follows belongs to nothing.
    bent[offset : offset + 2] = b"\3\0"

    assert refusal(bytes(bent)) == "broken_data"


def test_bytes_that_are_not_deflated_are_refused() -> None:
    data = bytearray(zipped("a", content=b"abc" * 1000))
    offset = open_archive(io.BytesIO(data), limits=LIMITS).members[0].data_offset
    data[offset] = 0xFF

    assert refusal(bytes(data)) == "broken_data"


def test_reader_may_take_less_than_the_archive_allows() -> None:
    file = io.BytesIO(segment())
    member = open_archive(file, limits=LIMITS).members[1]

    with pytest.raises(ArchiveError, match="at most 100 are read"):
        read_member(file, member, cap=100)


def test_two_members_can_be_read_in_turn() -> None:
    contents = {"lane/a": bytes(range(256)) * 2000, "lane/b": bytes(range(255, -1, -1)) * 2000}
    file = io.BytesIO(segment(contents))
    _, first, second = open_archive(file, limits=LIMITS).members

    pairs = list(
        zip(
            member_chunks(file, first, cap=2**20),
            member_chunks(file, second, cap=2**20),
            strict=True,
        )
    )

    assert b"".join(a for a, _ in pairs) == contents["lane/a"]
    assert b"".join(b for _, b in pairs) == contents["lane/b"]


def window_of(data: bytes, member: Member) -> bytes:
    length = window_bytes(member.path, stored_bytes=member.stored_bytes)
    return data[member.header_offset :][:length]


@pytest.mark.parametrize("data", [segment(), described("a", "b")])
def test_one_range_holds_a_member(data: bytes) -> None:
    whole = read_all(data)

    for member in open_archive(io.BytesIO(data), limits=LIMITS).members:
        found = member_in_window(
            window_of(data, member),
            member.path,
            stored_bytes=member.stored_bytes,
            size_bytes=member.size_bytes,
        )
        assert found == whole[member.path]


def test_range_of_another_member_or_cut_short_is_refused() -> None:
    data = segment()
    _, first, second = open_archive(io.BytesIO(data), limits=LIMITS).members
    window = window_of(data, first)

    def read(window: bytes, path: str, size_bytes: int = first.size_bytes) -> None:
        member_in_window(window, path, stored_bytes=first.stored_bytes, size_bytes=size_bytes)

    with pytest.raises(ArchiveError, match=r"no 'lane/logs/b\.1\.log' at this place"):
        read(window, second.path)
    with pytest.raises(ArchiveError, match="ends within"):
        read(window[:60], first.path)
    with pytest.raises(ArchiveError, match="ends before"):
        read(window[:10], first.path)
    with pytest.raises(ArchiveError, match="has 3000 bytes, not 3001"):
        read(window, first.path, 3001)


def test_stored_bytes_are_those_of_the_file() -> None:
    data = segment()
    member = open_archive(io.BytesIO(data), limits=LIMITS).members[1]

    stored = stored_bytes_of(io.BytesIO(data), member)

    assert stored == data[member.data_offset :][: member.stored_bytes]


@given(
    st.dictionaries(st.from_regex(r"[a-z0-9_%]{1,20}", fullmatch=True), st.binary(max_size=300_000))
)
def test_any_content_comes_back(contents: dict[str, bytes]) -> None:
    members = {f"lane/{name}": content for name, content in contents.items()}

    found = read_all(segment(members))

    assert {path: data for path, data in found.items() if path != HEADER_PATH} == members


_DATA = segment({"lane/a": b"abc" * 50, "lane/b": bytes(range(200))})


@given(
    st.lists(st.tuples(st.integers(0, len(_DATA) - 1), st.integers(1, 255)), min_size=1, max_size=4)
)
def test_changed_bytes_give_the_content_or_an_archive_error(changes: list[tuple[int, int]]) -> None:
    data = bytearray(_DATA)
    for offset, mask in changes:
        data[offset] ^= mask

    # Only what means nothing to a reader may change unseen: times, versions, attributes.
    try:
        found = read_all(bytes(data))
    except ArchiveError:
        return
    assert found == read_all(_DATA)


@given(st.integers(0, len(_DATA)), st.binary(max_size=40), st.integers(0, 60))
def test_inserted_or_cut_bytes_are_refused(offset: int, inserted: bytes, cut: int) -> None:
    data = _DATA[:offset] + inserted + _DATA[offset + cut :]

    if data != _DATA:
        assert refusal(data)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    assert refusal(noise)


TURN = b'{"turn": 1, "role": "user", "kind": "message", "text": "Hello, hello, hello"}\n'
DENSE = [b"\0" * 10_000_000, TURN * 40_000, b"\0" * (2**20 + 1)]


@pytest.mark.parametrize("content", DENSE, ids=["zeros", "one turn", "barely counted"])
@pytest.mark.parametrize("source", ["memory", "file"])
def test_members_that_deflate_too_well_are_stored_as_they_are(
    tmp_path: Path, content: bytes, source: str
) -> None:
    name, file_of_it = "lane/logs/a.1.log", tmp_path / "source"
    file_of_it.write_bytes(content)

    with file_of_it.open("rb") as opened:
        members: list[tuple[str, bytes | BinaryIO]] = [
            (name, opened if source == "file" else content),
            ("lane/logs/b.1.log", b"\0" * 2**20),
        ]
        write_segment(tmp_path / "1.zip", HEADER, members)

    with (tmp_path / "1.zip").open("rb") as file:
        _, member, small = open_archive(file, limits=LIMITS).members
        assert (member.path, member.method) == (name, zipfile.ZIP_STORED)
        assert small.method == zipfile.ZIP_DEFLATED
        assert read_member(file, member, cap=LIMITS.member_bytes) == content


def test_large_members_of_usual_text_are_deflated() -> None:
    text = b"".join(b"line %d of a log\n" % number for number in range(200_000))

    data = segment({"lane/logs/a.1.log": text})

    assert len(data) < len(text) / 4
    assert open_archive(io.BytesIO(data), limits=LIMITS).members[1].method == zipfile.ZIP_DEFLATED
