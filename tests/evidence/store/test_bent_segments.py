"""Whatever is done to the bytes of a segment: it is refused in words, or every reader reads the same."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalhub.protocol.archive import read_member
from evidence.store.operations.reading import SegmentUnfitError
from tests.evidence.factories import result_bytes
from tests.evidence.store.bent_archives import DESCRIBED, STORED, UTF8, Entry, archive
from tests.evidence.store.test_noise import FOLDER, JUDGE, SEGMENT, sorted_bytes

_LOCAL = struct.Struct("<4s5H3I2H")
_MOST = 2**26


def header() -> bytes:
    with zipfile.ZipFile(io.BytesIO(SEGMENT)) as made:
        return made.read("segment.json")


def written(method: int, flags: int) -> bytes:
    members = {
        "segment.json": header(),
        f"{FOLDER}/result.json": result_bytes(),
        f"{FOLDER}/judge.1.ndjson": JUDGE,
        "lane/faults.1.ndjson": b"{}\n" * 40,
    }
    return archive(
        [
            Entry(name=name.encode(), data=data, method=method, flags=flags)
            for name, data in members.items()
        ]
    )


WHOLE = [
    SEGMENT,
    written(STORED, UTF8),
    written(STORED, UTF8 | DESCRIBED),
    written(8, UTF8 | DESCRIBED),
]


def streamed(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield members as a reader does that never sees the directory: one local header after the other."""
    position = 0
    while data[position : position + 4] == b"PK\3\4":
        fields = _LOCAL.unpack_from(data, position)
        flags, method, crc, stored, size, name_bytes, extra_bytes = (
            fields[2],
            fields[3],
            *fields[6:],
        )
        start = position + _LOCAL.size + name_bytes + extra_bytes
        name = data[position + _LOCAL.size :][:name_bytes].decode()
        if method == 8:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            content = inflater.decompress(data[start:], _MOST)
            assert inflater.eof
            end = len(data) - len(inflater.unused_data)
        else:
            # Without sizes a stored member ends where its descriptor is.
            stored = stored or _described_length(data, start, flags)
            content, end = data[start : start + stored], start + stored
        if flags & DESCRIBED:
            end += 4 if data[end : end + 4] == b"PK\7\10" else 0
            crc, _, size = struct.unpack_from("<3I", data, end)
            end += 12
        assert (zlib.crc32(content), len(content)) == (crc, size)
        yield name, content
        position = end


def _described_length(data: bytes, start: int, flags: int) -> int:
    if not flags & DESCRIBED:
        return 0
    length = 0
    while True:
        found = data.index(b"PK\7\10", start + length)
        length = found - start
        crc, stored, _ = struct.unpack_from("<3I", data, found + 4)
        if stored == length and zlib.crc32(data[start:found]) == crc:
            return length
        length += 1


def assert_sentence(detail: str) -> None:
    assert detail.endswith(".")
    assert detail.isprintable()


def assert_refused_or_read_alike(data: bytes) -> None:
    try:
        content = sorted_bytes(data)
    except SegmentUnfitError as error:
        assert_sentence(error.unfit.detail)
        return
    for refused in content.refused:
        assert refused.unfit.detail
    by_stream = dict(streamed(data)) if not content.refused else {}
    with zipfile.ZipFile(io.BytesIO(data)) as by_directory:
        for item in content.accepted:
            own = read_member(io.BytesIO(data), item.member, cap=_MOST)
            assert by_directory.read(item.path) == own
            assert by_stream.get(item.path, own) == own
        if not content.refused:
            assert [info.filename for info in by_directory.infolist()] == list(by_stream)


class Change(NamedTuple):
    """Something that is done to bytes, at places that scale with their length."""

    kind: str
    where: float
    other: float
    length: int
    noise: bytes
    donor: bytes

    def __call__(self, data: bytes) -> bytes:
        at, start = int(self.where * len(data)), int(self.other * len(data))
        return data[:at] + CHANGES[self.kind](self, data[start : start + self.length], data[at:])


CHANGES: dict[str, Callable[[Change, bytes, bytes], bytes]] = {
    "flip": lambda c, _, rest: bytes(b ^ c.noise[0] for b in rest[:1]) + rest[1:],
    "set": lambda c, _, rest: c.noise + rest[len(c.noise) :],
    "truncate": lambda *_: b"",
    "cut": lambda c, _, rest: rest[c.length :],
    "insert": lambda c, _, rest: c.noise + rest,
    "repeat": lambda _, piece, rest: piece + rest,
    "overwrite": lambda _, piece, rest: piece + rest[len(piece) :],
    "splice": lambda c, *_: c.donor[int(c.other * len(c.donor)) :],
}
_NUMBERS = [0, 1, 2, 0xFF, 0xFFFF, 0x10000, 0xFFFFFFFE, 0xFFFFFFFF]
_changes = st.builds(
    Change,
    kind=st.sampled_from(sorted(CHANGES)),
    where=st.floats(0, 1),
    other=st.floats(0, 1),
    length=st.integers(1, 80),
    noise=st.binary(min_size=1, max_size=8)
    | st.sampled_from(_NUMBERS).map(lambda number: struct.pack("<I", number)),
    donor=st.sampled_from(WHOLE),
)


@settings(max_examples=400)
@given(st.sampled_from(WHOLE), st.lists(_changes, max_size=4))
@example(WHOLE[0], [])
@example(WHOLE[1], [])
@example(WHOLE[2], [])
@example(WHOLE[3], [])
def test_bent_segment_is_refused_or_read_alike_by_all(data: bytes, done: list[Change]) -> None:
    for change in done:
        data = change(data)

    assert_refused_or_read_alike(data)


_LIES = st.sampled_from([0, 1, 3, 4, 22, 46, 60, 1000, 0xFFFF, 0xFFFFFFFF])


@settings(max_examples=400)
@given(st.data())
def test_headers_that_lie_never_give_two_readings(data: st.DataObject) -> None:
    fields = ("flags", "method", "crc", "stored", "size")
    lies = st.dictionaries(st.sampled_from(fields), _LIES, max_size=2).map(
        lambda lie: {f: v & 0xFFFF if f in ("flags", "method") else v for f, v in lie.items()}
    )
    told: dict[str, Any] = data.draw(
        st.fixed_dictionaries({"both": lies, "local": lies, "central": lies})
    )
    bent = Entry(
        name=b"lane/faults.1.ndjson",
        data=b"{}\n" * 9,
        method=data.draw(st.sampled_from([STORED, 8])),
        flags=data.draw(st.sampled_from([0, UTF8, UTF8 | DESCRIBED])),
        descriptor=data.draw(st.none() | st.binary(max_size=24)),
        before=data.draw(st.just(b"") | st.binary(max_size=4)),
        offset=data.draw(st.none() | st.integers(0, 400)),
        **told,
    )
    around = [
        Entry(name=b"segment.json", data=header()),
        Entry(name=f"{FOLDER}/result.json".encode(), data=result_bytes()),
    ]

    assert_refused_or_read_alike(archive([*around, bent]))
