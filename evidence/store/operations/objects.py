"""Which object lies where, and what a key says."""

import io
import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.retained import RetainedAttempt
from evalhub.protocol.tombstones import TOMBSTONE
from evidence.store.storage import object_store
from lanes.plans.models import Attempt, Plan

PLAN, POLICY, STATE, FOREIGN = "plan.json", "policy.json", "state.json", "foreign.json"
ATTEMPT, SEAL = "attempt.json", "seal.json"
_PIECE = re.compile(
    r"(?P<seq>[1-9][0-9]{0,6})-(?P<hex>[0-9a-f]{64})"
    r"\.(?P<kind>zip|receipt\.json|refusal\.json|purged\.json)"
)


class Piece(NamedTuple):
    """What the name of an object in an attempt's folder says of it."""

    seq: int
    sha256: str
    kind: str
    """`zip`, `receipt.json`, `refusal.json` or `purged.json`."""


class Place(NamedTuple):
    """Where an object lies: in a plan's folder, or in that of one of its attempts."""

    project: str
    plan: str
    lane: str | None
    attempt: str | None
    name: str

    @property
    def folder(self) -> str:
        """The folder of the plan or attempt, without a slash at its end."""
        parts = (self.project, self.plan, self.lane, self.attempt)
        return "/".join(part for part in parts if part is not None)

    @property
    def piece(self) -> Piece | None:
        """What the name says, if it is one of a segment or of a document beside it."""
        match = _PIECE.fullmatch(self.name)
        if match is None:
            return None
        return Piece(int(match["seq"]), f"sha256:{match['hex']}", match["kind"])


def place_of(key: str) -> Place | None:
    """Return what a key says; None if evalhub names no object like that."""
    parts = key.split("/")
    if len(parts) == 4:
        owner, name, plan, leaf = parts
        return Place(f"{owner}/{name}", plan, None, None, leaf)
    if len(parts) == 6:
        owner, name, plan, lane, attempt, leaf = parts
        return Place(f"{owner}/{name}", plan, lane, attempt, leaf)
    return None


def folder_of_plan(key: str) -> str:
    """Return the folder of a plan in which a key lies, whatever it names there; else nothing."""
    parts = key.split("/")
    return "/".join(parts[:3]) if len(parts) > 3 else ""


def plan_folder(plan: Plan) -> str:
    """Return the folder of a plan's objects, without a slash at its end."""
    return f"{plan.project.name}/{plan.digest}"


def attempt_folder(attempt: Attempt) -> str:
    """Return the folder of an attempt's objects, without a slash at its end."""
    return f"{plan_folder(attempt.lane.plan)}/{attempt.lane.name}/{attempt.key}"


def segment_key(attempt: Attempt, *, seq: int, sha256: str) -> str:
    """Return the key of a segment's object; it names the content, so a retry rewrites the same."""
    return f"{attempt_folder(attempt)}/{seq}-{sha256.removeprefix('sha256:')}.zip"


def receipt_key(object_key: str) -> str:
    """Return the key of the receipt beside a segment's object."""
    return f"{object_key.removesuffix('.zip')}.receipt.json"


def refusal_key(object_key: str) -> str:
    """Return the key of the reason beside the object of a segment that was refused as a whole."""
    return f"{object_key.removesuffix('.zip')}.refusal.json"


def tombstone_key(object_key: str) -> str:
    """Return the key of the tombstone beside where a segment's object is, or was."""
    return f"{object_key.removesuffix('.zip')}.{TOMBSTONE}"


def seq_of(object_key: str) -> int:
    """Return the seq that the key of a segment's object names.

    Raises:
        ValueError: if it is no key of a segment.
    """
    place = place_of(object_key)
    piece = place.piece if place is not None else None
    if piece is None:
        raise ValueError(f"{object_key!r} is no key of a segment")
    return piece.seq


def put_attempt_documents(attempt: Attempt) -> None:
    """Store what an attempt's segments cannot be read without, where it is absent.

    The plan, its policy and `attempt.json`; that one last: where it is, the others are too.
    """
    key = f"{attempt_folder(attempt)}/{ATTEMPT}"
    if object_store().exists(key):
        return
    put_plan_documents(attempt.lane.plan)
    put_document(key, attempt_document(attempt))


def put_plan_documents(plan: Plan) -> None:
    """Store a plan and its policy, as they were registered, where they are absent."""
    folder, store = plan_folder(plan), object_store()
    if not store.exists(f"{folder}/{POLICY}"):
        put_bytes(f"{folder}/{POLICY}", plan.policy.document.encode())
    if not store.exists(f"{folder}/{PLAN}"):
        put_bytes(f"{folder}/{PLAN}", plan.document.encode())


def attempt_document(attempt: Attempt) -> RetainedAttempt:
    """Return whose folder an attempt's is."""
    return RetainedAttempt(
        attempt=attempt.key,
        plan=attempt.lane.plan.digest,
        lane=attempt.lane.name,
        number=attempt.number,
        opened_at=attempt.opened_at,
    )


def put_document(key: str, document: BaseModel | Mapping[str, object]) -> None:
    """Store a JSON document in its canonical bytes."""
    put_bytes(key, document_bytes(document))


def document_bytes(document: BaseModel | Mapping[str, object]) -> bytes:
    """Return the bytes that a document is stored as."""
    if isinstance(document, BaseModel):
        return canonical_bytes(document.model_dump(mode="json", by_alias=True))
    return canonical_bytes(document)


def put_bytes(key: str, data: bytes) -> None:
    """Store an object that fits into memory."""
    object_store().put(key, io.BytesIO(data))
