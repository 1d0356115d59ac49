"""The segments of a spool as files: what lies there, and what the store said of it."""

import hashlib
import io
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.segments import HEADER_PATH, Receipt, SegmentHeader
from evalhub.runner import clock


class Segment(NamedTuple):
    """A segment in the spool."""

    seq: int
    path: Path
    sha256: str

    @property
    def receipt_path(self) -> Path:
        return self.path.with_suffix(".receipt.json")

    @property
    def refused_path(self) -> Path:
        return self.path.with_suffix(".refused.txt")

    def is_intact(self) -> bool:
        """Return whether the file still is what was written."""
        return _digest(self.path.read_bytes()) == self.sha256


class WholeSegment(NamedTuple):
    """A segment that was read, and the sizes of its items by path."""

    segment: Segment
    sizes: dict[str, int]


def whole_segment(path: Path, *, attempt: str, least_age_seconds: float) -> WholeSegment | None:
    """Return the segment that lies in a file; None if it is not there, or not whole (now)."""
    try:
        if 0 <= clock.now().timestamp() - path.stat().st_mtime < least_age_seconds:
            return None
        data = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = {i.filename: i.file_size for i in archive.infolist()}
            header = parse_document(SegmentHeader, archive.read(HEADER_PATH))
            # The end of a file may be there before its middle.
            is_whole = archive.testzip() is None
    except (
        OSError,
        EOFError,
        KeyError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
        DocumentError,
    ):
        return None
    if not is_whole or (header.attempt, header.seq) != (attempt, int(path.stem)):
        return None
    del sizes[HEADER_PATH]
    return WholeSegment(Segment(header.seq, path, _digest(data)), sizes)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def kept_answer(segment: Segment) -> Receipt | str | None:
    """Return what another process kept of the store's answer; None if there is nothing to rely on."""
    try:
        if segment.refused_path.exists():
            return segment.refused_path.read_text(encoding="utf-8").strip()
        return parse_document(Receipt, segment.receipt_path.read_bytes())
    except (OSError, DocumentError):
        # Sent again, it gets the same receipt.
        return None
