"""The rows of one sorted segment. Called inside its transaction, with the attempt locked."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from evalhub.protocol.plan import RunKey
from evalhub.protocol.records import Result
from evalhub.protocol.redaction import redacted_text
from evalhub.protocol.segments import Category, Receipt, Refused
from evidence.store import queries
from evidence.store.models import LONGEST_KEPT_PATH, Item, JudgeCall, Refusal, Run, Score, Segment
from evidence.store.operations import probes, scores
from evidence.store.operations.contents import Unfit
from evidence.store.operations.reading import (
    AcceptedItem,
    RefusedItem,
    SegmentContent,
    refused,
)
from lanes.plans.models import Attempt, AttemptState

# SQLite takes a bounded number of parameters in one statement.
_AT_ONCE = 500
_LONGEST_DETAIL = 1000
_RESULT_STAGE = "result"
_Value = TypeVar("_Value")


class Decided(NamedTuple):
    """What counts of a segment: `fresh` items get rows, `repeated` ones had theirs already."""

    fresh: list[AcceptedItem]
    repeated: list[AcceptedItem]
    refused: list[RefusedItem]


class ReceiptContradictedError(Exception):
    """What a receipt says cannot be, beside the rows that are there or the bytes that it names."""


def decided_items(attempt: Attempt, content: SegmentContent) -> Decided:
    """Compare sound items with what the attempt has: its state, and the paths that are taken."""
    decided = Decided([], [], [*content.refused])
    if not attempt.accepts_evidence:
        unfit = _ended(attempt)
        decided.refused.extend(refused(item, unfit) for item in content.accepted)
        return decided
    taken = _taken_paths(attempt, [item.path for item in content.accepted])
    for item in content.accepted:
        known = taken.get(item.path)
        if known is None:
            decided.fresh.append(item)
        elif known == item.sha256:
            decided.repeated.append(item)
        else:
            detail = f"The attempt has another item at this path, with the digest {known}."
            unfit = Unfit(Category.DUPLICATE, "path_taken", detail)
            decided.refused.append(refused(item, unfit))
    decided = _without_contradictions(attempt, decided)
    fresh = probes.without_misfits(attempt, decided.fresh, into=decided.refused)
    return decided._replace(fresh=fresh)


def decided_before(attempt: Attempt, content: SegmentContent, receipt: Receipt) -> Decided:
    """Return what a receipt says of a segment's items, whatever would be decided now.

    Raises:
        ReceiptContradictedError: as `told_items`, or if an item that it accepted is beside another
            of its path.
    """
    told = told_items(content, receipt)
    taken = _taken_paths(attempt, [item.path for item in told.accepted])
    decided = Decided([], [], told.refused)
    for item in told.accepted:
        if taken.get(item.path, item.sha256) != item.sha256:
            raise ReceiptContradictedError(
                f"{item.path!r} was accepted, but the attempt has another item at this path."
            )
        (decided.repeated if item.path in taken else decided.fresh).append(item)
    return decided


class ToldItems(NamedTuple):
    """The items of a segment as its receipt sorts them."""

    accepted: list[AcceptedItem]
    refused: list[RefusedItem]


def told_items(content: SegmentContent, receipt: Receipt) -> ToldItems:
    """Return a segment's items as its receipt sorts them.

    Raises:
        ReceiptContradictedError: if it names other items than the segment has, or if one that it
            accepted cannot be read now.
    """
    there = {item.path: item for item in content.refused}
    there |= {item.path: refused(item, _UNDECIDED) for item in content.accepted}
    turned_away = {
        told.path: _refused_before(told, there.get(told.path)) for told in receipt.refused
    }
    unreadable = [item for item in content.refused if item.path not in turned_away]
    if unreadable:
        first = unreadable[0]
        raise ReceiptContradictedError(
            f"{first.path!r} was accepted and cannot be read by this release: {first.unfit.detail}"
        )
    accepted = [item for item in content.accepted if item.path not in turned_away]
    if content.is_whole and len(accepted) != receipt.accepted:
        raise ReceiptContradictedError(
            f"its receipt says that {receipt.accepted} items were accepted, but it has {len(accepted)}."
        )
    return ToldItems(accepted, list(turned_away.values()))


_UNDECIDED = Unfit(Category.MALFORMED, "", "")


def _refused_before(told: Refused, item: RefusedItem | None) -> RefusedItem:
    if item is None:
        raise ReceiptContradictedError(
            f"its receipt refuses {told.path!r}, which it does not have."
        )
    return item._replace(unfit=Unfit(told.category, told.code, told.detail))


class _Told(NamedTuple):
    """What a judge line says of its call; the same call told again must say the same."""

    rubric: str
    stage: str
    fingerprint: str
    value: float | None


def _without_contradictions(attempt: Attempt, decided: Decided) -> Decided:
    """Refuse items that tell another story of a judge call than an earlier part of the same run."""
    known = _told_calls(attempt, decided.fresh)
    fresh = []
    for item in decided.fresh:
        told = {
            (item.item.run, line.call_id): _Told(
                line.rubric, line.stage, line.fingerprint, line.value
            )
            for line in item.content.judge_lines
        }
        against = next((key for key, said in told.items() if known.get(key, said) != said), None)
        if against is None:
            known |= told
            fresh.append(item)
            continue
        before, now = known[against], told[against]
        detail = (
            f"Judge call {against[1]} was told of before as {_words(before)}; here it is"
            f" {_words(now)}. A call that is made again has a call_id of its own."
        )
        unfit = Unfit(Category.DUPLICATE, "call_contradicted", detail)
        decided.refused.append(refused(item, unfit))
    return decided._replace(fresh=fresh)


def _told_calls(
    attempt: Attempt, items: Sequence[AcceptedItem]
) -> dict[tuple[RunKey | None, UUID], _Told]:
    keys = {item.item.run for item in items if item.item.run and item.content.judge_lines}
    runs = {run_id: key for key, run_id in _known_runs(attempt, list(keys)).items()}
    told: dict[tuple[RunKey | None, UUID], _Told] = {}
    for some in _batches(sorted(runs)):
        for call in JudgeCall.objects.filter(run__in=some):
            said = _Told(call.rubric, call.stage, call.fingerprint, call.value)
            told[runs[call.run_id], call.call_id] = said
    return told


def _words(told: _Told) -> str:
    return f"{'no value' if told.value is None else repr(told.value)} of {told.rubric}/{told.stage}"


def store_items(segment: Segment, attempt: Attempt, accepted: Sequence[AcceptedItem]) -> list[Item]:
    """Write the items, and the runs, judge calls, scores and probes that they tell of."""
    runs = _stored_runs(attempt, accepted)
    # Here and below rows are referred to by id: that costs a fifth less than by object.
    rows = Item.objects.bulk_create(
        Item(
            segment_id=segment.pk,
            attempt_id=attempt.pk,
            run_id=runs.ids[item.item.run] if item.item.run is not None else None,
            path=item.path,
            kind=item.item.kind,
            part=item.item.part,
            name=item.item.name,
            sha256=item.sha256,
            size_bytes=item.member.size_bytes,
            header_offset=item.member.header_offset,
            stored_bytes=item.member.stored_bytes,
            lines=item.content.lines,
            secrets=item.secrets,
        )
        for item in accepted
    )
    _store_judge_calls(rows, accepted, runs)
    _store_measured_scores(attempt, runs, accepted)
    probes.store_probes(attempt, accepted)
    return rows


def store_refusals(
    attempt: Attempt,
    items: Iterable[RefusedItem],
    *,
    segment: Segment | None,
    object_key: str,
    at: datetime,
    stored_at: datetime | None = None,
) -> list[Refusal]:
    """Write the quarantine's rows; the bytes stay where they lie."""
    return Refusal.objects.bulk_create(
        Refusal(
            attempt=attempt,
            plan=attempt.lane.plan,
            segment=segment,
            path=item.path[:LONGEST_KEPT_PATH],
            category=item.unfit.category,
            code=item.unfit.code,
            detail=item.unfit.detail[:_LONGEST_DETAIL],
            sha256=item.sha256,
            size_bytes=item.size_bytes,
            object_key=object_key,
            refused_at=at,
            stored_at=stored_at,
        )
        for item in items
    )


def _ended(attempt: Attempt) -> Unfit:
    words = {
        AttemptState.SEALED: "was sealed",
        AttemptState.SUPERSEDED: "was superseded by a newer attempt of its lane",
        AttemptState.CANCELLED: "was cancelled",
    }
    state = AttemptState(attempt.state)
    detail = f"The attempt {words[state]} before this arrived."
    return Unfit(Category.STALE, f"attempt_{state.lower()}", detail)


def _taken_paths(attempt: Attempt, paths: Sequence[str]) -> dict[str, str]:
    taken: dict[str, str] = {}
    for some in _batches(paths):
        items = Item.objects.filter(attempt=attempt, path__in=some)
        taken.update(items.values_list("path", "sha256"))
    return taken


class _Runs(NamedTuple):
    ids: dict[RunKey, int]
    new_ids: set[int]


def _stored_runs(attempt: Attempt, accepted: Sequence[AcceptedItem]) -> _Runs:
    results = {
        item.item.run: _shown_result(item) for item in accepted if item.content.result is not None
    }
    keys = dict.fromkeys(item.item.run for item in accepted if item.item.run is not None)
    known = _known_runs(attempt, list(keys))
    told = [_run(attempt, key, results[key]) for key in known if key in results]
    # What is known already conflicts: one statement for all whose result came now.
    Run.objects.bulk_create(
        told,
        update_conflicts=True,
        unique_fields=["attempt", "scenario", "arm", "epoch"],
        update_fields=[*_RESULT_COLUMNS],
    )
    new = Run.objects.bulk_create(
        _run(attempt, key, results.get(key)) for key in keys if key not in known
    )
    ids = {RunKey(run.scenario, run.arm, run.epoch): run.pk for run in new}
    return _Runs(known | ids, set(ids.values()))


def _known_runs(attempt: Attempt, keys: Sequence[RunKey]) -> dict[RunKey, int]:
    wanted = set(keys)
    known: dict[RunKey, int] = {}
    for some in _batches(sorted({key.scenario for key in keys})):
        runs = Run.objects.filter(attempt=attempt, scenario__in=some)
        for run_id, scenario, arm, epoch in runs.values_list("pk", "scenario", "arm", "epoch"):
            key = RunKey(scenario, arm, epoch)
            if key in wanted:
                known[key] = run_id
    return known


def _run(attempt: Attempt, key: RunKey, result: Result | None) -> Run:
    return Run(
        plan_id=attempt.lane.plan_id,
        lane_id=attempt.lane_id,
        attempt_id=attempt.pk,
        scenario=key.scenario,
        arm=key.arm,
        epoch=key.epoch,
        **_result_columns(result),
    )


def _shown_result(item: AcceptedItem) -> Result | None:
    """Return a result whose words can stand in lists: without the secrets that were found in it."""
    result = item.content.result
    if result is None or not item.secrets:
        return result
    fault = result.error
    if fault is not None:
        words = {name: redacted_text(getattr(fault, name))[:200] for name in ("origin", "type")}
        fault = fault.model_copy(update=words)
    code = redacted_text(result.code)[:200] if result.code is not None else None
    return result.model_copy(update={"code": code, "error": fault})


_RESULT_COLUMNS = (
    "outcome",
    "code",
    "started_at",
    "duration_ms",
    "transcript_parts",
    "error_origin",
    "error_type",
)


def _result_columns(result: Result | None) -> dict[str, object]:
    if result is None:
        return {}
    return {
        "outcome": result.outcome,
        "code": result.code,
        "started_at": result.started_at,
        "duration_ms": result.duration_ms,
        "transcript_parts": result.transcript_parts,
        "error_origin": result.error.origin if result.error is not None else None,
        "error_type": result.error.type if result.error is not None else None,
    }


def _store_judge_calls(rows: Sequence[Item], accepted: Sequence[AcceptedItem], runs: _Runs) -> None:
    calls = [
        JudgeCall(
            run_id=runs.ids[item.item.run],
            item_id=row.pk,
            call_id=line.call_id,
            rubric=line.rubric,
            stage=line.stage,
            fingerprint=line.fingerprint,
            repeat=line.repeat,
            value=line.value,
            unscored_reason=line.unscored_reason,
        )
        for row, item in zip(rows, accepted, strict=True)
        if item.item.run is not None
        for line in item.content.judge_lines
    ]
    touched = {call.run_id for call in calls}
    earlier: list[JudgeCall] = []
    for some in _batches(sorted(touched - runs.new_ids)):
        earlier += JudgeCall.objects.filter(run__in=some).order_by("pk")
    JudgeCall.objects.bulk_create(calls)
    scores.store_scores(scores.judged_scores([*earlier, *calls]))


def _store_measured_scores(attempt: Attempt, runs: _Runs, accepted: Sequence[AcceptedItem]) -> None:
    rubrics = queries.plan_facts(attempt.lane.plan).measured
    scores.store_scores(
        Score(
            run_id=runs.ids[item.item.run],
            rubric=rubric,
            stage=_RESULT_STAGE,
            fingerprint="",
            value=value,
            repeats=1,
        )
        for item in accepted
        if item.content.result is not None and item.item.run is not None
        for rubric, value in item.content.result.scores.items()
        if rubric in rubrics
    )


def _batches(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
