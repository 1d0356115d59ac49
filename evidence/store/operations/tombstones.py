"""What is written beside a segment before its bytes go, and how its rows are made from that."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.paths import ItemKind, parse_path
from evalhub.protocol.records import JudgeLine, Result, RunFault
from evalhub.protocol.segments import Category, SegmentHeader
from evalhub.protocol.tombstones import (
    KeptCall,
    KeptCost,
    KeptItem,
    KeptRefusal,
    KeptResult,
    RemovalOrder,
    Tombstone,
)
from evalhub.protocol.zip_structure import Member
from evidence.store.models import Item, JudgeCall, Refusal, Removal, Score, Segment
from evidence.store.operations import objects
from evidence.store.operations.contents import CallCost, Content, Unfit
from evidence.store.operations.findings import digest_of
from evidence.store.operations.reading import (
    AcceptedItem,
    Money,
    RefusedItem,
    SegmentContent,
)
from evidence.store.operations.rereading import Reread, reread
from evidence.store.storage import ObjectMissingError, object_store
from lanes.plans.models import Attempt

Stored = Segment | Refusal
"""A row of received bytes: a segment, or one that was refused as a whole."""

# The receipt says why.
_UNDECIDED = Unfit(Category.MALFORMED, "", "")


def order_of(removal: Removal) -> RemovalOrder:
    """Return what tombstones say of an order."""
    return RemovalOrder(
        key=removal.key,
        cause=removal.cause,
        scope=removal.scope,
        subject=removal.subject,
        ordered_by=removal.ordered_by,
        reason=removal.reason,
        ordered_at=removal.ordered_at,
        segments=removal.segments,
        size_bytes=removal.size_bytes,
    )


def tombstone_from_bytes(stored: Stored, order: RemovalOrder) -> Tombstone | None:
    """Return the tombstone of a segment that is there and sound, read one last time; else None."""
    try:
        with object_store().open(stored.object_key) as file:
            digest, _ = digest_of(file)
            if digest != stored.sha256:
                return None
            file.seek(0)
            read = reread(file, stored.attempt, seq=objects.seq_of(stored.object_key))
    except ObjectMissingError:
        return None
    if read.content is None and isinstance(stored, Segment):
        # Of an earlier release, and of a form that this one does not read.
        return None
    return _tombstone(stored, order, read)


def _tombstone(stored: Stored, order: RemovalOrder, read: Reread) -> Tombstone:
    content = read.content if isinstance(stored, Segment) else None
    header = content.header if content is not None else None
    return Tombstone(
        seq=objects.seq_of(stored.object_key),
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        class_=header.class_ if header is not None else None,
        created_at=header.created_at if header is not None else None,
        removal=order,
        is_whole=True,
        items=[_kept_item(item) for item in content.accepted] if content is not None else [],
        refused=[
            KeptRefusal(path=item.path, sha256=item.sha256, size_bytes=item.size_bytes)
            for item in (content.refused if content is not None else [])
        ],
        costs=[
            KeptCost(
                call_id=call.call_id,
                rubric=call.rubric,
                stage=call.stage,
                cost_microusd=call.cost_microusd,
                cost_source=call.cost_source,
            )
            for call in read.money.calls
        ],
        unknown_costs=read.money.unknown,
    )


def _kept_item(item: AcceptedItem) -> KeptItem:
    content = item.content
    return KeptItem(
        path=item.path,
        sha256=item.sha256,
        size_bytes=item.member.size_bytes,
        header_offset=item.member.header_offset,
        stored_bytes=item.member.stored_bytes,
        lines=content.lines,
        secrets=item.secrets,
        result=_kept_result(content.result) if content.result is not None else None,
        judge=[
            KeptCall(
                call_id=line.call_id,
                rubric=line.rubric,
                stage=line.stage,
                fingerprint=line.fingerprint,
                repeat=line.repeat,
                value=line.value,
                unscored_reason=line.unscored_reason,
            )
            for line in content.judge_lines
        ],
        probes=[line.model_copy(update={"extra": {}}) for line in content.probe_lines],
    )


def _kept_result(result: Result) -> KeptResult:
    return KeptResult(
        outcome=result.outcome,
        code=result.code,
        started_at=result.started_at,
        duration_ms=result.duration_ms,
        transcript_parts=result.transcript_parts,
        error_origin=result.error.origin if result.error is not None else None,
        error_type=result.error.type if result.error is not None else None,
        scores=result.scores,
    )


def tombstone_from_rows(stored: Stored, order: RemovalOrder) -> Tombstone:
    """Return as much of a tombstone as rows tell, of bytes that cannot be read any more."""
    told: dict[str, object] = {"class": None, "created_at": None, "items": [], "refused": []}
    if isinstance(stored, Segment):
        refused = Refusal.objects.filter(segment=stored).order_by("pk")
        told = {
            "class": stored.segment_class,
            "created_at": stored.created_at,
            "items": list(_items_of_rows(stored)),
            "refused": [
                KeptRefusal(path=row.path, sha256=row.sha256, size_bytes=row.size_bytes)
                for row in refused
            ],
        }
    return Tombstone.model_validate(
        {
            "seq": objects.seq_of(stored.object_key),
            "sha256": stored.sha256,
            "size_bytes": stored.size_bytes,
            "removal": order,
            "is_whole": False,
            "costs": [],
            "unknown_costs": {},
            **told,
        }
    )


def _items_of_rows(segment: Segment) -> Iterable[KeptItem]:
    calls: dict[int, list[KeptCall]] = defaultdict(list)
    for call in JudgeCall.objects.filter(item__segment=segment).order_by("pk"):
        calls[call.item_id].append(
            KeptCall.model_validate(
                {name: getattr(call, name) for name in KeptCall.model_fields}, strict=False
            )
        )
    for item in Item.objects.filter(segment=segment).select_related("run").order_by("pk"):
        yield KeptItem(
            path=item.path,
            sha256=item.sha256,
            size_bytes=item.size_bytes,
            header_offset=item.header_offset,
            stored_bytes=item.stored_bytes,
            lines=item.lines,
            secrets=item.secrets,
            result=_result_of_rows(item) if item.kind == ItemKind.RESULT else None,
            judge=calls[item.pk],
        )


def _result_of_rows(item: Item) -> KeptResult | None:
    run = item.run
    if run is None or run.outcome is None:
        return None
    measured = Score.objects.filter(run=run, stage="result").values_list("rubric", "value")
    columns = {name: getattr(run, name) for name in KeptResult.model_fields if name != "scores"}
    return KeptResult.model_validate({**columns, "scores": dict(measured)}, strict=False)


def content_of(tombstone: Tombstone, attempt: Attempt) -> SegmentContent:
    """Return what a tombstone tells of its segment, in the form that intake makes rows of."""
    header = None
    if tombstone.class_ is not None and tombstone.created_at is not None:
        plan = attempt.lane.plan
        header = SegmentHeader(
            project=plan.project.name,
            plan=plan.digest,
            lane=attempt.lane.name,
            attempt=attempt.key,
            seq=tombstone.seq,
            class_=tombstone.class_,
            tested_sha=None,
            created_at=tombstone.created_at,
        )
    return replace(items_of(tombstone), header=header)


def items_of(tombstone: Tombstone) -> SegmentContent:
    """Return the items that a tombstone tells of, for whoever needs no header.

    Raises:
        PathError: if one lies at a path that no item has.
    """
    return SegmentContent(
        accepted=[_accepted_item(item) for item in tombstone.items],
        refused=[
            RefusedItem(item.path, _UNDECIDED, item.sha256, item.size_bytes)
            for item in tombstone.refused
        ],
        money=money_of(tombstone),
        is_whole=tombstone.is_whole,
    )


def money_of(tombstone: Tombstone) -> Money:
    """Return what the judge calls of a removed segment cost."""
    calls = [CallCost.model_construct(**dict(cost)) for cost in tombstone.costs]
    return Money(calls=calls, unknown=dict(tombstone.unknown_costs))


def _accepted_item(kept: KeptItem) -> AcceptedItem:
    member = Member(
        path=kept.path,
        method=0,
        crc=0,
        stored_bytes=kept.stored_bytes,
        size_bytes=kept.size_bytes,
        header_offset=kept.header_offset,
        data_offset=0,
    )
    content = Content(
        lines=kept.lines,
        result=_result(kept.result) if kept.result is not None else None,
        judge_lines=[JudgeLine.model_construct(**dict(call)) for call in kept.judge],
        probe_lines=kept.probes,
    )
    return AcceptedItem(
        kept.path, parse_path(kept.path), member, kept.sha256, content, kept.secrets
    )


def _result(kept: KeptResult) -> Result:
    columns = dict(kept)
    origin, kind = columns.pop("error_origin"), columns.pop("error_type")
    error = None
    if origin is not None and kind is not None:
        error = RunFault(origin=origin, type=kind, message="")
    return Result(**columns, error=error)


def tombstone_at(key: str) -> Tombstone | None:
    """Return the tombstone under a key; None if there is none.

    Raises:
        DocumentError: if what is there is no tombstone.
    """
    try:
        with object_store().open(key) as file:
            return parse_document(Tombstone, file.read())
    except ObjectMissingError:
        return None


def is_tombstone_of(stored: Stored, data: bytes) -> bool:
    """Say whether bytes are a tombstone of this segment."""
    try:
        told = parse_document(Tombstone, data)
    except DocumentError:
        return False
    return (told.seq, told.sha256) == (objects.seq_of(stored.object_key), stored.sha256)
