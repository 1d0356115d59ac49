"""What receipts promise, asked for: rows, bytes with their digest, and runs as the API gives them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.plan import RunKey
from evalhub.runner.client import Store
from evalhub.runner.errors import RunnerError
from evidence.store.storage import ObjectMissingError
from tests.bench import lanes
from tests.bench.senders import Kept
from tests.faults.house import House

_SEGMENTS = """
SELECT a.key, s.seq, s.sha256, s.receipt, s.object_key,
  (SELECT count(*) FROM evidence_store_item i WHERE i.segment_id = s.id)
FROM evidence_store_segment s JOIN lanes_plans_attempt a ON a.id = s.attempt_id
"""
_MOST_RUNS = 500


class Checked(NamedTuple):
    """How much was asked for, and what was not as promised: a sentence for each such receipt."""

    receipts: int
    runs: int
    size_bytes: int
    losses: list[str]


class _Stored(NamedTuple):
    """What is there of a segment."""

    sha256: str
    receipt: dict[str, Any]
    object_key: str
    items: int


def check(house: House, kept: Sequence[Kept]) -> Checked:
    """Ask for everything that receipts promise."""
    stored = _stored(house)
    size, losses = 0, []
    with lanes.reader(house) as store:
        readable = _Readable(store, kept)
        for one in kept:
            segment = stored.get((one.attempt, one.receipt.seq))
            data = _bytes(house, segment)
            size += len(data or b"")
            why = _unlike(one, segment, data) or readable.unlike(one)
            if why is not None:
                losses.append(f"{one.attempt}/{one.receipt.seq} ({one.key}): {why}")
    return Checked(len(kept), len({(one.plan, one.key) for one in kept}), size, losses)


def _stored(house: House) -> dict[tuple[str, int], _Stored]:
    return {
        (attempt, seq): _Stored(
            sha256, json.loads(receipt) if isinstance(receipt, str) else receipt, key, items
        )
        for attempt, seq, sha256, receipt, key, items in house.rows(_SEGMENTS)
    }


def _bytes(house: House, segment: _Stored | None) -> bytes | None:
    if segment is None:
        return None
    try:
        with house.objects.open(segment.object_key) as file:
            return file.read()
    except ObjectMissingError:
        return None


def _unlike(kept: Kept, segment: _Stored | None, data: bytes | None) -> str | None:
    receipt = kept.receipt.model_dump(mode="json")
    if segment is None:
        return "it has no row"
    if segment.receipt != receipt or segment.sha256 != receipt["sha256"]:
        return f"its row holds another receipt: {segment.receipt}"
    if receipt["refused"] or segment.items != receipt["accepted"]:
        return f"{segment.items} items have rows, {receipt['accepted']} were accepted"
    if data is None:
        return "its object is gone"
    if not bytes_digest(data) == kept.sha256 == receipt["sha256"]:
        return "its object has other bytes"
    return None


class _Readable:
    """The runs of plans as the API gives them."""

    def __init__(self, store: Store, kept: Sequence[Kept]) -> None:
        self._store = store
        self._runs: Mapping[str, Mapping[RunKey, dict[str, Any]]] = {
            plan: dict(_runs(store, plan)) for plan in {one.plan for one in kept}
        }

    def unlike(self, kept: Kept) -> str | None:
        run = self._runs[kept.plan].get(kept.key)
        if run is None:
            return "the API knows no such run"
        try:
            return self._unlike_told(kept, run)
        except RunnerError as error:
            return f"the API does not give it back: {error}"

    def _unlike_told(self, kept: Kept, run: dict[str, Any]) -> str | None:
        if kept.text is None:
            values = [line["value"] for line in self._store.run(run["id"])["judge"]]
            told: object = (run["outcome"], values)
            expected: object = ("passed", [1.0])
        else:
            turns = self._store.transcript(run["id"], start=1, limit=2)["turns"]
            told, expected = [turn["text"] for turn in turns], [kept.text]
        return None if told == expected else f"the API tells of {str(told)[:200]}"


def _runs(store: Store, plan: str) -> Iterator[tuple[RunKey, dict[str, Any]]]:
    for run in store.runs({"plan": plan, "limit": _MOST_RUNS})["runs"]:
        yield RunKey(run["scenario"], run["arm"], run["epoch"]), run
