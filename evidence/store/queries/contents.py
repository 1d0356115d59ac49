"""The bytes behind rows, read back and compared with what was acknowledged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from evalhub.protocol.archive import (
    member_in_window,
    open_archive,
    read_member,
    stored_bytes_of,
    window_bytes,
)
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import parse_document
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.records import LaneEnvironment
from evalhub.protocol.zip_structure import ArchiveError, ArchiveLimits
from evalhub.web.errors import DomainError
from evidence.store.models import LONGEST_KEPT_PATH, Item, Refusal, Segment
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans.models import Plan


class EvidenceDamagedError(DomainError):
    """Stored bytes are not those that were acknowledged."""

    status = 500
    code = "evidence-damaged"
    fix = (
        "Tell whoever runs this server: its object store has lost or changed bytes, or is not the one "
        "that they were put into (another bucket, a volume that is not mounted)."
    )


class EvidenceRemovedError(DomainError):
    """Bytes are gone on purpose: their age, or a person, had them removed."""

    status = 410
    code = "evidence-removed"
    fix = "The digest, and what was made of the bytes, are kept; the bytes are not."


class ReportedEnvironment(NamedTuple):
    """Where a lane says that one of its attempts ran."""

    lane: str
    attempt: str
    environment: LaneEnvironment


def item_bytes(item: Item) -> bytes:
    """Return an item's bytes, read by one range of its segment and compared with their digest.

    Raises:
        EvidenceDamagedError: if the bytes are not those that were acknowledged.
        EvidenceRemovedError: if they were removed on purpose.
    """
    _expect_not_removed(item.segment)
    with _kept(item.path):
        window = object_store().read_range(
            item.segment.object_key,
            offset=item.header_offset,
            length=window_bytes(item.path, stored_bytes=item.stored_bytes),
        )
    try:
        data = member_in_window(
            window, item.path, stored_bytes=item.stored_bytes, size_bytes=item.size_bytes
        )
    except ArchiveError as error:
        raise EvidenceDamagedError(f"{item.path} cannot be read back: {error}") from error
    if bytes_digest(data) != item.sha256:
        raise EvidenceDamagedError(f"{item.path} has changed since it was stored.")
    return data


def _expect_not_removed(stored: Segment | Refusal) -> None:
    if stored.removal is not None:
        raise EvidenceRemovedError(f"{stored.removal.sentence.removesuffix('.')}.")


@contextmanager
def _kept(what: str) -> Iterator[None]:
    """Read what a row vouches for: that it is absent is no wrong address, but a loss."""
    try:
        yield
    except ObjectMissingError as error:
        raise EvidenceDamagedError(f"{what} is not in the object store any more.") from error


def refusal_bytes(refusal: Refusal) -> bytes:
    """Return quarantined bytes; the stored form where they cannot be inflated.

    Raises:
        EvidenceDamagedError: if they are not there any more.
        EvidenceRemovedError: if they were removed on purpose.
    """
    _expect_not_removed(refusal.segment or refusal)
    with _kept(refusal.path or "The segment"), object_store().open(refusal.object_key) as file:
        if not refusal.path:
            return file.read()
        for member in open_archive(file, limits=ArchiveLimits()).members:
            if member.path[:LONGEST_KEPT_PATH] == refusal.path:
                try:
                    return read_member(file, member, cap=member.size_bytes)
                except ArchiveError:
                    return stored_bytes_of(file, member)
    raise EvidenceDamagedError(f"{refusal.path} is not in its segment any more.")


def lane_environments(plan: Plan) -> list[ReportedEnvironment]:
    """Return where each attempt of each lane says that it ran, in the order of the attempts.

    What was removed says nothing any more.
    """
    items = Item.objects.filter(
        attempt__lane__plan=plan, kind=ItemKind.ENVIRONMENT, segment__removal__isnull=True
    ).select_related("segment", "attempt__lane")
    return [
        ReportedEnvironment(
            item.attempt.lane.name,
            item.attempt.key,
            parse_document(LaneEnvironment, item_bytes(item)),
        )
        for item in items.order_by("attempt__lane_id", "attempt__number", "pk")
    ]
