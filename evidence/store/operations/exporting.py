"""The evidence of a plan as files, for an archive of it: objects as they lie."""

from collections.abc import Iterator
from typing import NamedTuple

from evidence.store.models import Refusal, Segment
from evidence.store.operations import documents, objects
from evidence.store.operations.objects import Place, place_of
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans.models import Plan

_CHUNK = 2**18


class EvidenceFile(NamedTuple):
    """An object of a plan: its name below the plan's folder, and the digest that the name has, if any."""

    name: str
    key: str
    sha256: str | None


def write_absent(plan: Plan) -> None:
    """Write the objects of a plan that a sweep has not come to yet."""
    documents.store_state(plan)


def evidence_files(plan: Plan) -> Iterator[EvidenceFile]:
    """Yield the plan, its policy, and what lies in the folders of its attempts.

    What the server alone keeps of the plan, and what is none of evalhub's, is left out.
    """
    folder = objects.plan_folder(plan)
    for key in object_store().keys(f"{folder}/"):
        place = place_of(key)
        if place is not None and _is_evidence(place):
            piece = place.piece
            sha256 = piece.sha256 if piece is not None and piece.kind == "zip" else None
            yield EvidenceFile(key.removeprefix(f"{folder}/"), key, sha256)


def lost_files(plan: Plan, *, there: set[str]) -> Iterator[str]:
    """Yield the names of segments that the rows know and that are not `there`."""
    folder = objects.plan_folder(plan)
    segments = Segment.objects.filter(attempt__lane__plan=plan).order_by("pk")
    whole = Refusal.objects.filter(plan=plan, segment__isnull=True).order_by("pk")
    for rows in (segments, whole):
        for key in rows.values_list("object_key", flat=True).iterator():
            name = key.removeprefix(f"{folder}/")
            if name not in there:
                yield name


def pieces_of(file: EvidenceFile) -> Iterator[bytes]:
    """Yield the bytes of an object; none if it is gone by now."""
    try:
        opened = object_store().open(file.key)
    except ObjectMissingError:
        return
    with opened:
        while piece := opened.read(_CHUNK):
            yield piece


def _is_evidence(place: Place) -> bool:
    if place.attempt is None:
        return place.name in {objects.PLAN, objects.POLICY}
    return place.name in {objects.ATTEMPT, objects.SEAL} or place.piece is not None
