"""Rows of a backup that are older than a removal: the tombstones beside the objects tell them of it."""

from collections.abc import Iterable

from evalhub.backup.manifest import BackupError
from evalhub.protocol.faults import DocumentError
from evalhub.protocol.tombstones import TOMBSTONE
from evidence.store.operations import objects, removals, tombstones
from lanes.plans.models import Attempt


def note_removed(keys: Iterable[str]) -> int:
    """Tell the rows of every removed segment that it was removed; return how many did not know.

    Raises:
        BackupError: if a tombstone cannot be read.
    """
    noted = 0
    for key in keys:
        place = objects.place_of(key)
        piece = place.piece if place is not None else None
        if place is None or piece is None or piece.kind != TOMBSTONE:
            continue
        attempt = Attempt.objects.filter(key=place.attempt).select_related("lane__plan").first()
        bytes_key = f"{key.removesuffix(f'.{TOMBSTONE}')}.zip"
        if attempt is None or not removals.is_unaware(attempt, bytes_key):
            continue
        try:
            tombstone = tombstones.tombstone_at(key)
        except DocumentError as error:
            raise BackupError(
                f"{key} cannot be read ({error}): run `manage.py check_store` and do not use this"
                " installation before it is mended."
            ) from error
        if tombstone is not None:
            removals.adopt(attempt, bytes_key, tombstone.removal)
            noted += 1
    return noted
