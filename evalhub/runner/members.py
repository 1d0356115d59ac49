"""What segments carry: items, and which of them go into one segment."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evalhub.runner.documents import JsonObject

# The header and the ZIP's own fields of a member, so that a full segment stays within its limit.
_OVERHEAD_BYTES = 1024
_MEMBER_OVERHEAD_BYTES = 512
# From here on the store looks at how far an item was packed, and may refuse the archive for it.
_LARGE_BYTES = 2**20


class Member(NamedTuple):
    """One item: its path in the segment, and its bytes or the file that holds them."""

    path: str
    content: bytes | Path
    origin: JsonObject | None = None
    """Of a part of a growing file: what of that file it was made of."""

    @property
    def size_bytes(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size


def batches(members: Sequence[Member], *, limit: int) -> Iterator[list[Member]]:
    """Yield members in groups that fit one segment each, without two names that differ by case."""
    batch: list[Member] = []
    size = _OVERHEAD_BYTES
    names: set[str] = set()
    for member in members:
        own = member.size_bytes + len(member.path) * 2 + _MEMBER_OVERHEAD_BYTES
        if own > _LARGE_BYTES:
            # Should the store refuse its archive, nothing else is refused with it.
            yield [member]
            continue
        folded = member.path.casefold()
        if batch and (size + own > limit or folded in names):
            yield batch
            batch, size, names = [], _OVERHEAD_BYTES, set()
        batch.append(member)
        size += own
        names.add(folded)
    if batch:
        yield batch
