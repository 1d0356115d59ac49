"""What segments carry: items, and which of them go into one segment."""

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from evalhub.runner.agent_files import AgentFile
from evalhub.runner.documents import JsonObject

# The header and the ZIP's own fields of a member, so that a full segment stays within its limit.
_OVERHEAD_BYTES = 1024
_MEMBER_OVERHEAD_BYTES = 512
# From here on the store looks at how far an item was packed, and may refuse the archive for it.
_LARGE_BYTES = 2**20


class Member(NamedTuple):
    """One item: its path in the segment, and its bytes or an open file of the lane's own with them."""

    path: str
    content: bytes | BinaryIO
    origin: JsonObject | None = None
    """Of a part of a growing file: what of that file it was made of."""

    @property
    def size_bytes(self) -> int:
        if isinstance(self.content, bytes):
            return len(self.content)
        return self.content.seek(0, os.SEEK_END)


class LeftFile(NamedTuple):
    """An item to be: a file that an agent left, which anybody may still change."""

    path: str
    file: AgentFile


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
