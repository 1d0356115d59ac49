"""What memory the web server takes while one lane sends gigabytes."""

import base64
import os
import re
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from evalhub.protocol.archive import WrittenSegment
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import HEADER_PATH, SegmentHeader
from tests.bench import lanes
from tests.bench.installation import Installation
from tests.bench.lanes import Lane, Shape
from tests.programs.processes import descendants

GOAL_BYTES = 300 * 10**6
_SEGMENT_BYTES = 15 * 2**20
"""Just below what the server takes."""
_PART_BYTES, _PARTS = 2**20, 3
_LINE_BYTES = 40_000


def measured(house: Installation, *, folder: Path, gigabytes: float) -> dict[str, Any]:
    """Send so much as bulk segments of one lane: transcripts and attachments that hardly deflate."""
    count = max(round(gigabytes * 10**9 / _SEGMENT_BYTES), 1)
    # What came before is not its doing.
    house.web.restart()
    shape = Shape(scenarios=count, epochs=1)
    plan = lanes.register(house, shape, fields=lanes.UNJUDGED)
    at_rest = _peak_bytes(house)
    sent = 0
    began = time.perf_counter()
    with Lane(house, plan, folder=folder) as lane:
        for key in lanes.run_keys(shape):
            segment = lane.cut("bulk", _members(key), write=_write)
            receipt = lane.send(segment)
            assert not receipt.refused, receipt.refused
            segment.path.unlink()
            sent += segment.size_bytes
    return {
        "segments": count,
        "sent_bytes": sent,
        "seconds": time.perf_counter() - began,
        "at_rest_bytes": at_rest,
        "peak_bytes": _peak_bytes(house),
    }


def _write(
    file: BinaryIO, header: SegmentHeader, members: Iterable[tuple[str, bytes]]
) -> WrittenSegment:
    """Write a segment in less time than a lane's own way, which tries to deflate what cannot be."""
    with zipfile.ZipFile(file, "w", compresslevel=1, allowZip64=False) as archive:
        archive.writestr(HEADER_PATH, header.model_dump_json(by_alias=True))
        for path, data in members:
            is_text = path.endswith(".ndjson")
            method = zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED
            archive.writestr(path, data, compress_type=method)
    size = file.tell()
    file.seek(0)
    return WrittenSegment(bytes_digest(file.read()), size)


def _members(key: RunKey) -> Iterator[tuple[str, bytes]]:
    for part in range(1, _PARTS + 1):
        yield format_path(ItemPath(ItemKind.TRANSCRIPT, key, part=part)), _transcript(part)
    rest = _SEGMENT_BYTES - _PARTS * _PART_BYTES
    yield format_path(ItemPath(ItemKind.FILE, key, name="screen.png")), os.urandom(rest)


def _transcript(part: int) -> bytes:
    lines = []
    for number in range(_PART_BYTES // _LINE_BYTES):
        text = base64.b64encode(os.urandom(_LINE_BYTES * 3 // 4 - 100)).decode()
        turn = part * 1000 + number
        lines.append(f'{{"turn":{turn},"role":"tool","kind":"tool_result","text":"{text}"}}\n')
    return "".join(lines).encode()


def _peak_bytes(house: Installation) -> int:
    """Return the sum of the largest resident sizes that the web server's processes ever had."""
    pids = [house.web.process.pid, *(one.pid for one in descendants(house.web.process.pid))]
    return sum(_peak_of(pid) for pid in pids)


def _peak_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (kibibytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kibibytes) * 1024


def is_kept(found: dict[str, Any]) -> bool:
    """Say whether the goal was reached."""
    return bool(found["peak_bytes"] < GOAL_BYTES)


def print_table(found: dict[str, Any]) -> None:
    """Print what came out as people read it."""
    print(
        f"\nA lane sends {found['sent_bytes'] / 10**9:.2f} GB as {found['segments']} segments within"
        f" {found['seconds']:.0f} s; the web server's processes take at most"
        f" {found['peak_bytes'] / 10**6:.0f} MB together, {found['at_rest_bytes'] / 10**6:.0f} MB"
        f" before (goal: below {GOAL_BYTES / 10**6:.0f} MB{'' if is_kept(found) else ', missed'})"
    )
