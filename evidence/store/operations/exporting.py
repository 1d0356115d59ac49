"""The evidence of a plan as files, for an archive of it: objects as they lie."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from evidence.store.models import Segment
from evidence.store.operations import documents, objects
from evidence.store.operations.objects import Place, place_of
from evidence.store.operations.removals import Stock, whole_segments_refused
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans import queries as plans_queries
from lanes.plans.models import Plan

_CHUNK = 2**18
# Whoever may write to the bucket chooses names; only those that evalhub gives lead out of here.
_ATTEMPT_KEY = re.compile(r"att_[A-Za-z0-9_-]{10,60}")


class EvidenceFile(NamedTuple):
    """An object of a plan: its name below the plan's folder, and the digest that the name has, if any."""

    name: str
    key: str
    sha256: str | None


def write_absent(plan: Plan) -> None:
    """Write the objects of a plan that a sweep has not come to yet."""
    documents.store_state(plan)


def evidence_files(plan: Plan) -> Iterator[EvidenceFile]:
    """Yield the plan, its policy, where it came from, and what lies in the folders of its attempts.

    What the server alone keeps of the plan, what is none of evalhub's, and bytes that were ordered
    away, are left out.
    """
    removed = _removed(plan)
    folder, lanes = objects.plan_folder(plan), {lane.name for lane in plans_queries.lanes_of(plan)}
    for key in object_store().keys(f"{folder}/"):
        place = place_of(key)
        if place is not None and _is_evidence(place, lanes) and key not in removed:
            piece = place.piece
            sha256 = piece.sha256 if piece is not None and piece.kind == "zip" else None
            yield EvidenceFile(key.removeprefix(f"{folder}/"), key, sha256)


def lost_files(plan: Plan, *, there: set[str]) -> Iterator[str]:
    """Yield the names of segments that the rows know and that are not `there`."""
    folder = objects.plan_folder(plan)
    for rows in _bytes_of(plan).kept():
        for key in rows.order_by("pk").values_list("object_key", flat=True).iterator():
            name = key.removeprefix(f"{folder}/")
            if name not in there:
                yield name


def _removed(plan: Plan) -> set[str]:
    """Return the keys of the plan's bytes that were ordered away, gone or not."""
    every = _bytes_of(plan)
    gone = (rows.filter(removal__isnull=False) for rows in every)
    return {key for rows in gone for key in rows.values_list("object_key", flat=True)}


def _bytes_of(plan: Plan) -> Stock:
    segments = Segment.objects.filter(attempt__lane__plan=plan)
    return Stock(segments, whole_segments_refused(plan))


def pieces_of(file: EvidenceFile) -> Iterator[bytes]:
    """Yield the bytes of an object; none if it is gone by now."""
    try:
        opened = object_store().open(file.key)
    except ObjectMissingError:
        return
    with opened:
        while piece := opened.read(_CHUNK):
            yield piece


def _is_evidence(place: Place, lanes: set[str]) -> bool:
    if place.attempt is None:
        return place.name in {objects.PLAN, objects.POLICY, objects.FOREIGN}
    if place.lane not in lanes or _ATTEMPT_KEY.fullmatch(place.attempt) is None:
        return False
    return place.name in {objects.ATTEMPT, objects.SEAL} or place.piece is not None
