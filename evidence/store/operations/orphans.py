"""Segments whose upload came to nothing: stored, and never answered, since a process died in between.

Each is taken in as if it were sent now, which is safe whatever its lane does meanwhile: the same bytes
give one set of rows and one receipt. Bytes are removed only where no answer to them can ever be a
receipt: other bytes have their seq.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from evalhub.protocol.canonical import Digest
from evidence.store import queries
from evidence.store.models import OrphanRound, StorageOperation
from evidence.store.operations import faults, intake, objects
from evidence.store.operations.findings import digest_of
from evidence.store.operations.objects import Piece, place_of
from evidence.store.operations.recording import PlanPurgedError, SegmentConflictError
from evidence.store.operations.uploads import Upload
from evidence.store.storage import ObjectMissingError, StorageUnavailableError, object_store
from lanes.plans.models import Attempt

logger = logging.getLogger(__name__)

QUIET = 3 * intake.HEARD_AGAIN_AFTER
"""How long an attempt must not have been heard: what it sends now is answered by itself."""
UNFINISHED = timedelta(hours=1)
"""How long nothing must have been written to a file that was never given its name."""
_ONLY = 1


class Bounds(NamedTuple):
    """How much one sweep does at most: rows read, folders listed, segments taken in."""

    rows: int = 500
    listed: int = 20
    taken: int = 20


_USUAL = Bounds()


def sweep_orphans(*, at: datetime, most: Bounds = _USUAL) -> int:
    """Take in, or remove, what an upload left behind and no row knows; return how many segments.

    Goes round all attempts, some at each call. A folder is listed again only if its attempt was heard
    since the last round.
    """
    try:
        object_store().drop_unfinished(before=at - UNFINISHED)
        return _go_on(most, at=at)
    except StorageUnavailableError as error:
        faults.note_fault(StorageOperation.SWEEP, error, at=at)
        return 0


def _go_on(most: Bounds, *, at: datetime) -> int:
    turn, _ = OrphanRound.objects.get_or_create(pk=_ONLY, defaults={"began_at": at})
    attempts = Attempt.objects.filter(pk__gt=turn.position).order_by("pk")
    rows = list(attempts.values_list("pk", "last_heard_at")[: most.rows])
    listed, taken = 0, 0
    for pk, heard_at in rows:
        if heard_at <= at - QUIET and not _was_looked_at(turn, heard_at):
            listed += 1
            taken += _take_orphans(_attempt(pk), most=most.taken - taken, at=at)
            if taken >= most.taken:
                # There may be more: this attempt is the first of the next sweep.
                break
        turn.position = pk
        if listed == most.listed:
            break
    else:
        if len(rows) < most.rows:
            turn.previous_began_at, turn.began_at, turn.position = turn.began_at, at, 0
    turn.save()
    return taken


def _was_looked_at(turn: OrphanRound, heard_at: datetime) -> bool:
    before = turn.previous_began_at
    return before is not None and heard_at <= before - QUIET


def _attempt(pk: int) -> Attempt:
    return Attempt.objects.select_related("lane__plan__project", "lane__plan__policy").get(pk=pk)


class _Orphan(NamedTuple):
    key: str
    piece: Piece


def _take_orphans(attempt: Attempt, *, most: int, at: datetime) -> int:
    plan = attempt.lane.plan
    # What was imported is no upload of a lane; what is being rebuilt is taken in by that.
    if plan.is_foreign or queries.are_being_rebuilt([plan.pk]):
        return 0
    taken = 0
    for orphan in _orphans(attempt):
        taken += _take(attempt, orphan, at=at)
        if taken == most:
            break
    return taken


def _orphans(attempt: Attempt) -> Iterator[_Orphan]:
    """Yield the segments beside which nothing lies and that no row knows.

    Where a receipt or a reason lies beside one, its rows were lost: `manage.py reindex` makes them.
    """
    keys = object_store().keys(f"{objects.attempt_folder(attempt)}/")
    for _, group in groupby(keys, key=_stem):
        alone = list(group)
        place = place_of(alone[0])
        piece = place.piece if place is not None else None
        if len(alone) > 1 or piece is None or piece.kind != "zip":
            continue
        if not queries.has_rows(attempt, alone[0]):
            yield _Orphan(alone[0], piece)


def _stem(key: str) -> str:
    folder, _, name = key.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


def _take(attempt: Attempt, orphan: _Orphan, *, at: datetime) -> bool:
    """Take one segment in and say whether it is settled."""
    try:
        with object_store().open(orphan.key) as file:
            digest, size = digest_of(file)
            if digest != orphan.piece.sha256:
                # Nobody sent these bytes; `manage.py check_store` names the object.
                logger.warning("orphan %s has other bytes than its name says", orphan.key)
                return False
            upload = Upload(file, Digest(digest), size)
            intake.take_stored(
                attempt, orphan.piece.seq, upload, object_key=orphan.key, at=at, is_heard=False
            )
    except ObjectMissingError:
        return False
    except intake.SegmentRefusedError as error:
        logger.warning("orphan %s went to quarantine: %s", orphan.key, error.detail)
    except SegmentConflictError as error:
        object_store().delete(orphan.key)
        logger.warning("orphan %s was removed: %s", orphan.key, error.detail)
    except PlanPurgedError:
        logger.warning("orphan %s was removed: its plan was purged", orphan.key)
    else:
        logger.warning("orphan %s was taken in", orphan.key)
    return True
