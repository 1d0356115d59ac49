"""Which object lies where, and the small documents beside the segments."""

import io
from datetime import datetime

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.scalars import rfc3339
from evidence.store.storage import object_store
from lanes.plans.models import Attempt, Plan


def segment_key(attempt: Attempt, *, seq: int, sha256: str) -> str:
    """Return the key of a segment's object; it names the content, so a retry rewrites the same."""
    return f"{_attempt_folder(attempt)}/{seq}-{sha256.removeprefix('sha256:')}.zip"


def receipt_key(object_key: str) -> str:
    """Return the key of the receipt beside a segment's object."""
    return f"{object_key.removesuffix('.zip')}.receipt.json"


def put_attempt_documents(attempt: Attempt) -> None:
    """Store `plan.json` and `attempt.json` where they are absent, so that the store can be rebuilt."""
    store = object_store()
    attempt_key = f"{_attempt_folder(attempt)}/attempt.json"
    if store.exists(attempt_key):
        return
    plan = attempt.lane.plan
    plan_key = f"{_plan_folder(plan)}/plan.json"
    if not store.exists(plan_key):
        store.put(plan_key, io.BytesIO(plan.document.encode()))
    # Last: where it is, the plan is too.
    put_document(
        attempt_key,
        {
            "attempt": attempt.key,
            "plan": plan.digest,
            "lane": attempt.lane.name,
            "number": attempt.number,
            "opened_at": rfc3339(attempt.opened_at),
        },
    )


def put_seal(attempt: Attempt, *, segments: int, digest: str, at: datetime) -> None:
    """Store `seal.json`: what was sealed, and when."""
    put_document(
        f"{_attempt_folder(attempt)}/seal.json",
        {"segments": segments, "digest": digest, "sealed_at": rfc3339(at)},
    )


def put_document(key: str, document: dict[str, object]) -> None:
    """Store a JSON document in its canonical bytes."""
    object_store().put(key, io.BytesIO(canonical_bytes(document)))


def _plan_folder(plan: Plan) -> str:
    return f"{plan.project.name}/{plan.digest}"


def _attempt_folder(attempt: Attempt) -> str:
    return f"{_plan_folder(attempt.lane.plan)}/{attempt.lane.name}/{attempt.key}"
