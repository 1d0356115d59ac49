"""The rows of one plan, made again from its objects: first the plan and its attempts, then its segments.

A segment goes the way that it went when it arrived, except that what was decided then stands.
"""

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

from evalhub.protocol.canonical import Digest
from evalhub.protocol.segments import Receipt
from evalhub.protocol.tombstones import TOMBSTONE
from evidence.store import queries
from evidence.store.models import Refusal, Removal, Segment
from evidence.store.operations import intake, objects, recording, removals, tombstones
from evidence.store.operations.contents import Unfit
from evidence.store.operations.findings import Grade, digest_of
from evidence.store.operations.objects import Piece
from evidence.store.operations.plan_folders import PlanFolder, StoredPiece
from evidence.store.operations.plan_rows import KnownAttempt, PlanRows, Tally
from evidence.store.operations.reading import Money, SegmentUnfitError
from evidence.store.operations.recording import Before, SegmentConflictError
from evidence.store.operations.rereading import Reread, reread
from evidence.store.operations.rows import ReceiptContradictedError
from evidence.store.operations.uploads import Upload
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans.models import Attempt


class PlanRebuild:
    """One plan on its way from objects to rows."""

    def __init__(self, folder: PlanFolder, tally: Tally, *, at: datetime) -> None:
        self.folder = folder
        self.rows = PlanRows(folder, tally, at=at)
        self.tally = tally
        self.at = at

    def steps(self) -> Iterator[datetime]:
        """Make the rows; before each segment, yield when it was received, and wait to be asked again.

        What was done when this ends early is done; another one goes on from there.
        """
        rows = self.rows
        plan = rows.plan()
        if plan is None:
            return
        rows.give_allocations(plan)
        known = list(rows.attempts(plan))
        pieces = sorted(
            ((piece, one.row) for one in known for piece in self._unknown_pieces(one)),
            key=lambda pair: (pair[0].at, pair[1].opened_at, pair[0].piece.seq, pair[0].key),
        )
        for piece, attempt in pieces:
            yield piece.at
            rows.begin(plan)
            self._take_again(piece, attempt)
        rows.give_ends(plan, known)
        for one in known:
            self._note_removed(one)
            self._take_unanswered(one)
        rows.end(plan)

    def _unknown_pieces(self, one: KnownAttempt) -> Iterator[StoredPiece]:
        segments = Segment.objects.filter(attempt=one.row).values_list("object_key", flat=True)
        whole = Refusal.objects.filter(attempt=one.row, segment__isnull=True, path="")
        known = [objects.receipt_key(key) for key in segments.iterator()]
        known += map(objects.refusal_key, whole.values_list("object_key", flat=True).iterator())
        return self.folder.stored_pieces(one.folder, known=known)

    def _take_again(self, stored: StoredPiece, attempt: Attempt) -> None:
        """Make the rows of a segment that was answered."""
        try:
            if stored.is_removed:
                self._take_removed(stored, attempt)
                return
            with self._upload(stored.key, stored.piece) as upload:
                if upload is None:
                    return
                read = reread(upload.file, attempt, seq=stored.piece.seq)
                self._take_read(stored, attempt, upload, read)
        except ReceiptContradictedError as error:
            self.folder.tell(Grade.DAMAGED, stored.key, f"It was left out: {error}")
        except SegmentConflictError as error:
            self.folder.tell(Grade.UNINDEXED, stored.key, f"It was left out: {error.detail}")

    def _take_read(
        self,
        stored: StoredPiece,
        attempt: Attempt,
        upload: Upload,
        read: Reread,
        removal: Removal | None = None,
    ) -> None:
        if stored.is_refused:
            self._refuse_again(stored, attempt, upload, read.money, removal)
        else:
            self._receive_again(stored, attempt, upload, read, removal)

    def _take_removed(self, stored: StoredPiece, attempt: Attempt) -> None:
        """Make the rows of a segment whose bytes were removed from what its tombstone tells."""
        tombstone = self.folder.tombstone(stored.key)
        if tombstone is None:
            return
        if (tombstone.seq, tombstone.sha256) != (stored.piece.seq, stored.piece.sha256):
            key = objects.tombstone_key(stored.key)
            self.folder.tell(Grade.DAMAGED, key, f"It speaks of segment {tombstone.seq}.")
            return
        content = tombstones.content_of(tombstone, attempt)
        read = Reread(content if content.header is not None else None, "", content.money)
        upload = Upload(io.BytesIO(), Digest(tombstone.sha256), tombstone.size_bytes)
        removal = removals.known_removal(attempt.lane.plan, tombstone.removal)
        self._take_read(stored, attempt, upload, read, removal)

    def _note_removed(self, one: KnownAttempt) -> None:
        """Tell rows that were there before, of a backup perhaps, what was removed since."""
        for stem, kinds in one.folder.pieces.items():
            if TOMBSTONE not in kinds or not removals.is_unaware(one.row, f"{stem}.zip"):
                continue
            tombstone = self.folder.tombstone(f"{stem}.zip")
            if tombstone is not None:
                removals.adopt(one.row, f"{stem}.zip", tombstone.removal)
                self.tally.removed_segments += 1

    def _refuse_again(
        self,
        stored: StoredPiece,
        attempt: Attempt,
        upload: Upload,
        money: Money,
        removal: Removal | None,
    ) -> None:
        told = self.folder.refusal(stored.key)
        if told is None:
            return
        unfit = Unfit(told.category, told.code, told.detail)
        recording.quarantine_segment(
            attempt,
            upload,
            SegmentUnfitError(unfit, money),
            object_key=stored.key,
            at=told.refused_at,
            before=self._before(None, removal),
        )
        self.tally.refused_segments += 1

    def _receive_again(
        self,
        stored: StoredPiece,
        attempt: Attempt,
        upload: Upload,
        read: Reread,
        removal: Removal | None,
    ) -> None:
        receipt = self.folder.receipt(stored.key)
        if receipt is None:
            return
        if read.content is None:
            raise ReceiptContradictedError(
                f"it was received, and this release cannot read it: {read.detail}"
            )
        recording.record_segment(
            attempt,
            upload,
            read.content,
            object_key=stored.key,
            at=receipt.received_at,
            before=self._before(receipt, removal),
        )
        self.tally.segments += 1

    def _before(self, receipt: Receipt | None, removal: Removal | None) -> Before:
        is_counted = self.rows.is_next_counted()
        return Before(receipt, seen_at=self.at, is_counted=is_counted, removal=removal)

    def _take_unanswered(self, one: KnownAttempt) -> None:
        """Take segments that were stored and never answered, as if they had been sent now.

        Those of an attempt that has ended are left: sent now, they would be late.
        """
        for stem, kinds in one.folder.pieces.items():
            key = f"{stem}.zip"
            if set(kinds) != {"zip"} or queries.has_rows(one.row, key):
                continue
            if queries.is_purged(one.row.lane.plan):
                # The sweep that carries the purge out removes it.
                continue
            if not one.row.accepts_evidence:
                sentence = "It was stored and never acknowledged, and its attempt has ended."
                self.folder.tell(Grade.EXTRA, key, sentence)
                continue
            try:
                self._take_now(key, kinds["zip"], one.row)
            except SegmentConflictError as error:
                self.folder.tell(Grade.EXTRA, key, f"It was never acknowledged: {error.detail}")

    def _take_now(self, key: str, piece: Piece, attempt: Attempt) -> None:
        with self._upload(key, piece) as upload:
            if upload is None:
                return
            try:
                intake.take_stored(attempt, piece.seq, upload, object_key=key, at=self.at)
            except intake.SegmentRefusedError:
                self.tally.refused_segments += 1
            else:
                self.tally.segments += 1

    @contextmanager
    def _upload(self, key: str, piece: Piece) -> Iterator[Upload | None]:
        """Open a segment's object as the upload that it once was; None, and told, if it is damaged."""
        with ExitStack() as stack:
            try:
                file = stack.enter_context(object_store().open(key))
            except ObjectMissingError:
                self.folder.tell(Grade.MISSING, key, "It was acknowledged and is not there.")
                yield None
                return
            digest, size = digest_of(file)
            if digest != piece.sha256:
                sentence = f"It was left out: its {size} bytes have {digest}, not {piece.sha256}."
                self.folder.tell(Grade.DAMAGED, key, sentence)
                yield None
                return
            yield Upload(file, Digest(digest), size)
