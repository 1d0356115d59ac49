"""A segment that was answered long ago, opened once more: to make its rows again, or to part with it."""

from datetime import UTC, datetime
from typing import BinaryIO, NamedTuple

from evidence.store.operations import recording
from evidence.store.operations.reading import (
    Money,
    SegmentContent,
    SegmentUnfitError,
    sorted_segment,
)
from lanes.plans.models import Attempt

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Reread(NamedTuple):
    """A segment opened: sorted, or unfit as a whole; what its judge calls cost in any case."""

    content: SegmentContent | None
    detail: str
    """Why it is unfit."""
    money: Money


def reread(file: BinaryIO, attempt: Attempt, *, seq: int) -> Reread:
    """Return what a segment of an attempt holds, whenever it came."""
    # Whether it came in time was decided when it came.
    expected = recording.expected_of(attempt, at=_LATEST)._replace(opened_at=_EARLIEST)
    try:
        content = sorted_segment(file, expected=expected, seq=seq)
    except SegmentUnfitError as error:
        return Reread(None, error.unfit.detail, error.money)
    return Reread(content, "", content.money)
