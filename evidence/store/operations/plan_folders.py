"""A plan's folder in the object store, read for making its rows again. What cannot be read is told."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from evalhub.columns import ColumnError, column_values
from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.retained import (
    RetainedAttempt,
    RetainedOrigin,
    RetainedRefusal,
    RetainedSeal,
    RetainedState,
    parse_origin,
    parse_state,
)
from evalhub.protocol.segments import Receipt
from evalhub.protocol.tombstones import TOMBSTONE, Tombstone
from evidence.store.operations import objects
from evidence.store.operations.findings import Finding, Grade
from evidence.store.operations.objects import Piece, place_of
from evidence.store.storage import ObjectMissingError, object_store
from lanes.budget.models import SubAllocation
from lanes.plans.models import Attempt, Plan
from lanes.plans.operations.documents import ReadDocument

# A plan with tens of thousands of run keys has some megabytes.
_CHUNK, _MOST_CHUNKS = 2**18, 256
_LARGEST_DOCUMENT = _CHUNK * _MOST_CHUNKS
_Model = TypeVar("_Model", bound=BaseModel)


class StoredPiece(NamedTuple):
    """A segment whose receipt or reason lies beside it, and when it was given."""

    at: datetime
    key: str
    """Of its bytes."""
    piece: Piece
    is_refused: bool
    is_removed: bool
    """A tombstone lies in the place of its bytes, or beside them while they are about to go."""


@dataclass
class AttemptFolder:
    """What lies in an attempt's folder."""

    document: RetainedAttempt
    seal: RetainedSeal | None = None
    pieces: dict[str, dict[str, Piece]] = field(default_factory=dict)
    """By the common beginning of the keys of a segment: its objects by kind."""


@dataclass
class PlanFolder:
    """What lies in a plan's folder. `told` collects what is wrong with it."""

    path: str
    told: list[Finding] = field(default_factory=list)
    state: RetainedState | None = None
    origin: RetainedOrigin | None = None
    """Where the plan came from, if it was imported."""
    attempts: list[AttemptFolder] = field(default_factory=list)

    @property
    def project(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def digest(self) -> str:
        return self.path.rpartition("/")[2]

    def tell(self, grade: Grade, key: str, sentence: str) -> None:
        self.told.append(Finding(grade, key, sentence))

    def named(self, name: str, *, digest: str, lost: str) -> ReadDocument | None:
        """Return the document `name` of the folder, which `digest` names; None, and told, if not."""
        key = f"{self.path}/{name}"
        data = self._bytes(key)
        if data is None:
            self.tell(Grade.MISSING, key, lost)
            return None
        if bytes_digest(data) != digest:
            self.tell(Grade.DAMAGED, key, f"It has {bytes_digest(data)}, not {digest}.")
            return None
        return ReadDocument(data.decode(), bytes_digest(data))

    def read_state(self) -> None:
        """Read what the rows knew; it is passed over, and told, if it is damaged."""
        key = f"{self.path}/{objects.STATE}"
        data = self._bytes(key)
        if data is None:
            return
        try:
            state = parse_state(data)
            column_values(Plan, state.columns)
            for attempt in state.attempts:
                column_values(Attempt, attempt.columns)
            for given in state.allocations:
                column_values(SubAllocation, given.columns)
        except (DocumentError, ColumnError) as error:
            self.tell(Grade.DAMAGED, key, f"It cannot be read: {error}")
            return
        self.state = state

    def read_origin(self) -> None:
        """Read where the plan was imported from, if it was."""
        key = f"{self.path}/{objects.FOREIGN}"
        data = self._bytes(key)
        if data is None:
            return
        try:
            origin = parse_origin(data)
        except DocumentError as error:
            self.tell(Grade.DAMAGED, key, f"It cannot be read: {error}")
            return
        if origin.plan != self.digest:
            self.tell(Grade.DAMAGED, key, f"It speaks of plan {origin.plan}.")
            return
        self.origin = origin

    def read_all(self) -> None:
        """Read what lies here but segments, receipts and reasons."""
        self.read_state()
        self.read_origin()
        pieces: dict[str, dict[str, dict[str, Piece]]] = defaultdict(lambda: defaultdict(dict))
        folders: set[str] = set()
        for key in object_store().keys(f"{self.path}/"):
            place = place_of(key)
            if place is None or place.attempt is None:
                continue
            folders.add(place.folder)
            if place.piece is not None:
                stem = key.removesuffix(f".{place.piece.kind}")
                pieces[place.folder][stem][place.piece.kind] = place.piece
        self.attempts = list(self._attempts(folders, pieces))

    def begun_at(self) -> datetime | None:
        """Return when the plan was registered, or the next best that `read_all` has found."""
        if self.state is not None:
            told: datetime | None = column_values(Plan, self.state.columns).get("registered_at")
            if told is not None:
                return told
        if self.origin is not None and self.origin.registered_at is not None:
            return self.origin.registered_at
        return min((attempt.document.opened_at for attempt in self.attempts), default=None)

    def stored_pieces(
        self, attempt: AttemptFolder, *, known: Iterable[str]
    ) -> Iterator[StoredPiece]:
        """Yield the segments that were received or refused, but those whose answers are `known`."""
        skipped = set(known)
        for stem, kinds in attempt.pieces.items():
            for kind in sorted({"receipt.json", "refusal.json"} & set(kinds)):
                if f"{stem}.{kind}" in skipped:
                    continue
                if not {"zip", TOMBSTONE} & set(kinds):
                    self.tell(Grade.MISSING, f"{stem}.zip", "It was acknowledged and is not there.")
                    continue
                yield from self._stored_piece(
                    f"{stem}.zip", kinds[kind], is_removed=TOMBSTONE in kinds
                )

    def receipt(self, key: str) -> Receipt | None:
        """Return the receipt beside a segment's object."""
        return self._document(Receipt, objects.receipt_key(key))

    def refusal(self, key: str) -> RetainedRefusal | None:
        """Return the reason beside the object of a segment that was refused."""
        return self._document(RetainedRefusal, objects.refusal_key(key))

    def tombstone(self, key: str) -> Tombstone | None:
        """Return what is left of a segment that was removed; None, and told, if it is damaged."""
        return self._document(Tombstone, objects.tombstone_key(key))

    def _stored_piece(self, key: str, piece: Piece, *, is_removed: bool) -> Iterator[StoredPiece]:
        is_refused = piece.kind == "refusal.json"
        document = self.refusal(key) if is_refused else self.receipt(key)
        if document is None:
            return
        if (document.seq, document.sha256) != (piece.seq, piece.sha256):
            said = f"segment {document.seq} with {document.sha256}"
            self.tell(Grade.DAMAGED, key, f"What lies beside it speaks of {said}.")
            return
        at = document.received_at if isinstance(document, Receipt) else document.refused_at
        yield StoredPiece(at, key, piece, is_refused, is_removed)

    def _attempts(
        self, folders: set[str], pieces: dict[str, dict[str, dict[str, Piece]]]
    ) -> Iterator[AttemptFolder]:
        told = (
            {}
            if self.state is None
            else {
                f"{self.path}/{one.identity.lane}/{one.identity.attempt}": one.identity
                for one in self.state.attempts
            }
        )
        for folder in sorted(folders | set(told)):
            # The copy in the state serves as well, should the attempt's own be lost.
            document = told.get(folder) or self._identity(folder)
            if document is None:
                continue
            seal = None
            if folder in folders:
                seal = self._document(RetainedSeal, f"{folder}/{objects.SEAL}")
            yield AttemptFolder(document, seal, pieces.get(folder, {}))

    def _identity(self, folder: str) -> RetainedAttempt | None:
        key = f"{folder}/{objects.ATTEMPT}"
        document = self._document(RetainedAttempt, key)
        if document is None:
            self.tell(Grade.MISSING, key, "Whose folder this is cannot be told without it.")
            return None
        if (
            f"{self.path}/{document.lane}/{document.attempt}" != folder
            or document.plan != self.digest
        ):
            self.tell(
                Grade.DAMAGED, key, f"It speaks of attempt {document.attempt} of {document.plan}."
            )
            return None
        return document

    def _document(self, model: type[_Model], key: str) -> _Model | None:
        data = self._bytes(key)
        if data is None:
            return None
        try:
            return parse_document(model, data)
        except DocumentError as error:
            self.tell(Grade.DAMAGED, key, f"It cannot be read: {error}")
            return None

    def _bytes(self, key: str) -> bytes | None:
        try:
            with object_store().open(key) as file:
                # Read in pieces: room for the largest one is not taken for each small one.
                data = b"".join(islice(iter(partial(file.read, _CHUNK), b""), _MOST_CHUNKS + 1))
        except ObjectMissingError:
            return None
        if len(data) > _LARGEST_DOCUMENT:
            self.tell(Grade.DAMAGED, key, f"It has more than {_LARGEST_DOCUMENT} bytes.")
            return None
        return data
