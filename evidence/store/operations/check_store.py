"""Compare every object with the rows that vouch for it, by reading and hashing it.

Holds the names of one plan's objects at a time, and no object whole.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from evalhub.protocol.faults import DocumentError
from evalhub.protocol.retained import parse_state
from evalhub.protocol.tombstones import TOMBSTONE
from evidence.store.models import Item
from evidence.store.operations import documents, objects
from evidence.store.operations.findings import Finding, Grade, Scope, digest_of
from evidence.store.operations.objects import Piece, Place, place_of
from evidence.store.operations.vouched import Vouched, vouched_by_attempt, vouched_by_plan
from evidence.store.storage import MOST_READERS, ObjectMissingError, object_store
from lanes.plans.models import Attempt, Plan

# Enough to keep the readers busy, few enough to hold in memory.
_AHEAD_OF_EACH_READER = 8
_ROWS_AT_ONCE = 500
_LARGEST_DOCUMENT = 2**20
_ANSWERS = {"receipt.json": "was acknowledged", "refusal.json": "was refused"}


@dataclass
class Looked:
    """How much was looked at so far."""

    plans: int = 0
    objects: int = 0
    bytes: int = 0
    removed: int = 0
    """Segments whose bytes are gone on purpose: purged, or of an age."""


def store_findings(scope: Scope, *, looked: Looked, mend: bool = False) -> Iterator[Finding]:
    """Yield what is damaged, missing, unindexed or extra, plan by plan; `looked` grows meanwhile.

    With `mend`, documents that the rows hold whole are written again where they are damaged or
    missing.

    Raises:
        StorageUnavailableError: if the object store cannot be read to the end.
    """
    seen: set[int] = set()
    with ThreadPoolExecutor(MOST_READERS, thread_name_prefix="check-store") as readers:
        for folder, keys in groupby(object_store().keys(scope.prefix), key=objects.folder_of_plan):
            plan = _plan_of(folder)
            if plan is None:
                yield from _without_rows(folder, keys, looked)
                continue
            seen.add(plan.pk)
            check = _Check(plan, set(keys), readers, looked, mend=mend)
            yield from check.findings()
        for plan in _plans_of(scope):
            if plan.pk not in seen:
                yield from _Check(plan, set(), readers, looked, mend=mend).findings()


class _Read(NamedTuple):
    """One object, read: what is wrong with it, and how many bytes it has."""

    vouched: Vouched
    grade: Grade | None
    sentence: str
    size_bytes: int


class _Check:
    """The check of one plan."""

    def __init__(
        self,
        plan: Plan,
        present: set[str],
        readers: ThreadPoolExecutor,
        looked: Looked,
        *,
        mend: bool,
    ) -> None:
        self.plan = plan
        self.present = present
        self.unvouched = set(present)
        self.readers = readers
        self.looked = looked
        self.mend = mend
        self.returned: list[Vouched] = []

    def findings(self) -> Iterator[Finding]:
        self.looked.plans += 1
        for read in self._reads():
            self.looked.objects += 1
            self.looked.bytes += read.size_bytes
            if read.grade is not None:
                yield self._told(read)
        yield from map(self._returned, self.returned)
        yield from self._state()
        yield from _unvouched(self.plan, self.unvouched)

    def _reads(self) -> Iterator[_Read]:
        """Read what is vouched for, several at once, in order."""
        waiting: deque[Future[_Read]] = deque()
        for vouched in self._vouched():
            self.unvouched.discard(vouched.key)
            self.looked.removed += vouched.is_gone
            if vouched.key not in self.present and (
                not vouched.is_required or self._is_told_by_tombstone(vouched)
            ):
                continue
            if vouched.is_gone:
                self.returned.append(vouched)
                continue
            waiting.append(self.readers.submit(_read, vouched))
            if len(waiting) > MOST_READERS * _AHEAD_OF_EACH_READER:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _vouched(self) -> Iterator[Vouched]:
        yield from vouched_by_plan(self.plan)
        attempts = Attempt.objects.filter(lane__plan=self.plan).order_by("lane_id", "number")
        rows = attempts.select_related("lane__plan__project").defer("lane__plan__document")
        for attempt in rows.iterator(_ROWS_AT_ONCE):
            yield from vouched_by_attempt(attempt)

    def _is_told_by_tombstone(self, vouched: Vouched) -> bool:
        """Return whether bytes were removed of which the row does not know: the tombstone is told of."""
        return vouched.is_bytes and objects.tombstone_key(vouched.key) in self.present

    def _returned(self, vouched: Vouched) -> Finding:
        sentence = f"{vouched.what} was removed on purpose, and its bytes are there again."
        if not self.mend:
            return Finding(Grade.RETURNED, vouched.key, sentence)
        object_store().delete(vouched.key)
        return Finding(
            Grade.RETURNED, vouched.key, f"{sentence} They were deleted.", is_mended=True
        )

    def _told(self, read: _Read) -> Finding:
        assert read.grade is not None  # noqa: S101 - only what is wrong is told
        vouched, sentence = read.vouched, read.sentence
        if vouched.segment_id is not None:
            items = Item.objects.filter(segment=vouched.segment_id).count()
            sentence += f" It holds {items} items that count."
        if not self.mend or vouched.written is None:
            return Finding(read.grade, vouched.key, sentence)
        objects.put_bytes(vouched.key, vouched.written())
        return Finding(read.grade, vouched.key, f"{sentence} It was written again.", is_mended=True)

    def _state(self) -> Iterator[Finding]:
        """Tell if the copy of what the plan's rows know is not there or cannot be read."""
        key = f"{objects.plan_folder(self.plan)}/{objects.STATE}"
        self.unvouched.discard(key)
        is_copied = hasattr(self.plan, "copy") and self.plan.copy.seen_version > 0
        if not is_copied and key not in self.present:
            return
        self.looked.objects += 1
        grade = _grade_of_state(key, self.plan)
        if grade is None:
            return
        sentence = f"The copy of what the rows of plan {self.plan.digest} know is {grade}."
        if self.mend:
            documents.store_state(self.plan)
            yield Finding(grade, key, f"{sentence} It was written again.", is_mended=True)
        else:
            yield Finding(grade, key, sentence)


def _read(vouched: Vouched) -> _Read:
    """Read one object to its end. Runs in a thread, and asks the database nothing."""
    try:
        with object_store().open(vouched.key) as file:
            if vouched.is_like is not None and vouched.is_like(file.read(_LARGEST_DOCUMENT)):
                return _Read(vouched, None, "", file.tell())
            file.seek(0)
            digest, size = digest_of(file)
    except ObjectMissingError:
        return _Read(vouched, Grade.MISSING, f"{vouched.what} is not in the object store.", 0)
    wanted = vouched.sha256
    if vouched.is_like is not None:
        # Not asked what it should be: that may be a question to the database.
        sentence = f"{vouched.what} has changed: its {size} bytes are not what was written."
        return _Read(vouched, Grade.DAMAGED, sentence, size)
    if wanted is None and vouched.written is not None:
        wanted = f"sha256:{hashlib.sha256(vouched.written()).hexdigest()}"
    if digest == wanted:
        return _Read(vouched, None, "", size)
    sentence = f"{vouched.what} has changed: its {size} bytes have {digest}, not {wanted}."
    return _Read(vouched, Grade.DAMAGED, sentence, size)


def _grade_of_state(key: str, plan: Plan) -> Grade | None:
    try:
        with object_store().open(key) as file:
            state = parse_state(file.read())
    except ObjectMissingError:
        return Grade.MISSING
    except DocumentError:
        return Grade.DAMAGED
    return None if state.plan == plan.digest else Grade.DAMAGED


def _unvouched(plan: Plan, keys: set[str]) -> Iterator[Finding]:
    """Yield what is said of objects in a plan's folder that no row vouches for."""
    attempts = (
        {
            attempt.key: attempt
            for attempt in Attempt.objects.filter(lane__plan=plan).select_related("lane")
        }
        if keys
        else {}
    )
    for key in sorted(keys):
        place = place_of(key)
        attempt = attempts.get(place.attempt or "") if place is not None else None
        if place is None or place.attempt is None:
            yield _extra(key)
        elif attempt is None or attempt.lane.name != place.lane:
            yield _of_lost_attempt(key, place)
        else:
            yield from _of_attempt(key, place, attempt, keys)


def _of_lost_attempt(key: str, place: Place) -> Finding:
    is_named = place.name in {objects.ATTEMPT, objects.SEAL} or place.piece is not None
    if not is_named:
        return _extra(key)
    sentence = f"It belongs to attempt {place.attempt}, which has no row."
    return Finding(Grade.UNINDEXED, key, sentence)


def _of_attempt(key: str, place: Place, attempt: Attempt, keys: set[str]) -> Iterator[Finding]:
    if place.name == objects.SEAL:
        # Attempts that an earlier release sealed have an object and no row.
        if attempt.accepts_evidence:
            sentence = f"Attempt {attempt.key} was sealed, but its row does not know."
            yield Finding(Grade.UNINDEXED, key, sentence)
        return
    piece = place.piece
    if piece is None:
        yield _extra(key)
        return
    yield from _of_piece(key, piece, attempt, keys)


def _of_piece(key: str, piece: Piece, attempt: Attempt, keys: set[str]) -> Iterator[Finding]:
    """Yield what is said of a segment's objects: of those that belong together, one finding."""
    segment = f"Segment {piece.seq} of attempt {attempt.key}"
    stem = key.removesuffix(f".{piece.kind}")
    beside = {kind for kind in ("zip", *_ANSWERS, TOMBSTONE) if f"{stem}.{kind}" in keys}
    if TOMBSTONE in beside:
        if piece.kind == TOMBSTONE:
            sentence = f"{segment} was purged or removed because of its age; its rows do not know."
            yield Finding(Grade.UNINDEXED, key, sentence)
    elif piece.kind != "zip":
        if "zip" not in beside:
            sentence = (
                f"{segment} {_ANSWERS[piece.kind]}, but neither its rows nor its bytes are there."
            )
            yield Finding(Grade.MISSING, key, sentence)
    elif "receipt.json" in beside:
        yield Finding(Grade.UNINDEXED, key, f"{segment} was acknowledged, but has no rows.")
    elif "refusal.json" in beside:
        yield Finding(Grade.UNINDEXED, key, f"{segment} was refused, but has no row.")
    else:
        yield Finding(Grade.EXTRA, key, f"{segment} was stored, but never acknowledged.")


def _without_rows(folder: str, keys: Iterable[str], looked: Looked) -> Iterator[Finding]:
    """Yield what is said of a folder of which the rows know no plan."""
    count, has_plan = 0, False
    for key in keys:
        count += 1
        has_plan = has_plan or key == f"{folder}/{objects.PLAN}"
        if not folder:
            yield _extra(key)
    looked.objects += count
    if folder:
        grade = Grade.UNINDEXED if has_plan else Grade.EXTRA
        said = "a plan that has no rows" if has_plan else "no plan"
        yield Finding(grade, folder, f"The folder holds {count} objects of {said}.")


def _extra(key: str) -> Finding:
    return Finding(Grade.EXTRA, key, "It is none of evalhub's objects.")


def _plan_of(folder: str) -> Plan | None:
    project, _, digest = folder.rpartition("/")
    plans = Plan.objects.filter(digest=digest, project__name=project)
    return plans.select_related("project", "policy", "copy").defer("document").first()


def _plans_of(scope: Scope) -> Iterator[Plan]:
    plans = Plan.objects.select_related("project", "policy", "copy").defer("document")
    if scope.plan is not None:
        plans = plans.filter(pk=scope.plan.pk)
    if scope.project is not None:
        plans = plans.filter(project=scope.project)
    return plans.order_by("pk").iterator(_ROWS_AT_ONCE)
