"""The rows that one plan leaves behind, from its registration to what its lanes delivered."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from evalhub.growth import evidence
from evalhub.growth.documents import (
    DEADLINE_MINUTES,
    LANE_BUDGET_MICROUSD,
    STAGES,
    LaneShape,
    PlanFacts,
    plan_document,
)
from evalhub.growth.evidence import FINGERPRINTS, Laid, Told
from evalhub.growth.rows import Rows
from evalhub.growth.schedule import Case, Try
from evalhub.growth.tables import moment
from evalhub.protocol.canonical import bytes_digest, canonical_bytes, document_digest
from evalhub.protocol.paths import ItemKind
from evalhub.protocol.plan import RunKey
from evalhub.protocol.scalars import rfc3339
from evalhub.protocol.segments import Category, SegmentDigest, SegmentHeader, seal_digest
from evidence.store.operations import documents, objects
from lanes.budget.models import Pool
from lanes.plans.models import Attempt, AttemptState, Lane, Plan, PlanState, PolicyVersion
from lanes.projects.models import Project, Scope

Json = dict[str, object]

TOOK = timedelta(minutes=25)
"""From a plan's registration to its conclusion."""
BY_CI = "token:evh_gene… generated"
_STARTS_AFTER, _RUNS_FOR = timedelta(minutes=1), timedelta(minutes=20)
_REFUSED = 0.05
"""Share of the attempts that also sent what was refused."""
_REFUSALS = (
    (Category.DUPLICATE, "path_taken", "The attempt has another item at this path."),
    (Category.MALFORMED, "invalid_record", "/outcome was 'done'; expected an outcome."),
    (Category.UNEXPECTED, "not_planned", "The plan has no such run key."),
)


class Place(NamedTuple):
    """Where a plan is registered, and whether its segments go into the object store."""

    project: Project
    policy: PolicyVersion
    pool: Pool
    facts: PlanFacts
    keeps_objects: bool


class _Begun(NamedTuple):
    attempt: Attempt
    heard_at: str
    runs: dict[RunKey, int]
    """Ids of what was delivered."""

    @property
    def lane(self) -> str:
        return self.attempt.lane.name


class WrittenPlan:
    """One plan, whose rows are in `rows` once this is made. Chance follows from seed and index."""

    def __init__(self, rows: Rows, case: Case, place: Place, *, seed: int) -> None:
        self._rows, self._case, self._place = rows, case, place
        self._chance = np.random.default_rng([seed, 1, case.index])
        self._records: list[list[str]] = []
        self.attempts: list[Json] = []
        """As a conclusion names them."""
        self._spent = {lane.name: 0 for lane in case.shape.lanes}
        self.document = canonical_bytes(plan_document(place.facts)).decode()
        self.digest = bytes_digest(self.document.encode())
        self.pk = self._add_plan()
        lanes = {lane: self._add_lane(lane) for lane in case.shape.lanes}
        for one in case.tries:
            lane = case.shape.lanes[one.lane]
            self._add_attempt(one, lane, lanes[lane])
        self._add_allocations()
        self._add_copy()

    def evidence_digest(self) -> str:
        """Return the digest of the plan's own evidence."""
        return document_digest(sorted(self._records))

    def audit(
        self, action: str, subject: str, after: Json, *, at: datetime, actor: str = BY_CI
    ) -> None:
        """Add a line to the project's audit."""
        self._rows.audit.add(
            self._place.project.pk, moment(at), actor, action, subject, json.dumps(after)
        )

    @property
    def inputs_version(self) -> int:
        """Opening, two segments and a seal of each attempt have moved the inputs."""
        return 1 + 4 * len(self._case.tries)

    def _add_plan(self) -> int:
        case, facts = self._case, self._place.facts
        is_concluded = case.state == PlanState.CONCLUDED
        concluded = self.inputs_version if is_concluded else 0
        superseded_at = case.superseded_at and moment(case.superseded_at)
        cancelled_at = moment(case.at + TOOK / 2) if case.is_cancelled else None
        runs = case.shape.run_count
        named: Json = {"suite": case.shape.suite, "head_sha": case.head_sha, "runs": runs}
        self.audit("plan.register", self.digest, named, at=case.at)
        return self._rows.plans.add(
            *(self._place.project.pk, self._place.policy.pk, self.digest, self.document, "gate"),
            *(case.shape.suite, facts.suite_digest, case.event, case.ref, case.pull_request),
            *(case.head_sha, case.tested_sha, case.base_sha, facts.workflow_run_id, runs),
            *(case.pull_request is None, str(case.state), 1, self.inputs_version),
            *(concluded, BY_CI, moment(case.at)),
            moment(case.at + timedelta(minutes=DEADLINE_MINUTES)),
            *(superseded_at, superseded_at, cancelled_at, cancelled_at),
            *(moment(case.at + TOOK) if is_concluded else None, self.inputs_version + concluded),
        )

    def _add_copy(self) -> None:
        """Say that the objects tell all that the plan's row knows."""
        case = self._case
        row = Plan(
            inputs_version=self.inputs_version,
            concluded_version=self.inputs_version if case.state == PlanState.CONCLUDED else 0,
            superseded_at=case.superseded_at,
            cancelled_at=case.at if case.is_cancelled else None,
        )
        self._rows.copies.add(self.pk, documents.changes_of(row))

    def _add_lane(self, lane: LaneShape) -> Lane:
        runs = len(self._case.shape.run_keys(lane))
        pk = self._rows.lanes.add(self.pk, lane.name, lane.kind, runs, lane.kind == "ordinary")
        place = self._place
        plan = Plan(
            project=place.project, policy=place.policy, digest=self.digest, document=self.document
        )
        return Lane(pk=pk, plan=plan, name=lane.name)

    def _add_attempt(self, one: Try, lane: LaneShape, row: Lane) -> None:
        case = self._case
        key = f"att_{self._chance.bytes(12).hex()}"
        opened_at = case.at + _STARTS_AFTER * one.number
        is_cut = one.state == AttemptState.SUPERSEDED
        heard_at = moment(opened_at + (_STARTS_AFTER / 2 if is_cut else _RUNS_FOR))
        has_ended = one.state in (AttemptState.SEALED, AttemptState.SUPERSEDED)
        planned = len(case.shape.run_keys(lane))
        pk = self._rows.attempts.add(
            *(row.pk, key, one.number, str(one.state), moment(opened_at), heard_at),
            *(heard_at if has_ended else None, "", one.delivered, planned),
        )
        attempt = Attempt(pk=pk, lane=row, key=key, number=one.number, opened_at=opened_at)
        told = evidence.told_runs(
            *(case.shape, lane, case.profile),
            count=one.delivered,
            at=opened_at,
            chance=self._chance,
        )
        runs = {
            run.key: self._rows.runs.add(
                *(self.pk, row.pk, pk, *run.key, run.outcome, moment(opened_at)),
                *(run.duration_ms, 1, *_error_of(run)),
            )
            for run in told
        }
        begun = _Begun(attempt, heard_at, runs)
        self._add_token(attempt)
        sent = [
            SegmentDigest(seq, self._add_segment(begun, told, class_, seq=seq))
            for seq, class_ in enumerate(("record", "bulk"), start=1)
        ]
        self._add_spending(begun, told)
        if one.state == AttemptState.SEALED:
            self._rows.seals.add(pk, len(sent), seal_digest(sent), heard_at, heard_at)
        if self._place.keeps_objects:
            objects.put_attempt_documents(attempt)
        self.attempts.append(
            {"lane": lane.name, "attempt": key, "number": one.number, "state": str(one.state)}
        )

    def _add_token(self, attempt: Attempt) -> None:
        name, at = f"lane {attempt.lane.name} #{attempt.number}", attempt.opened_at
        scopes = [Scope.LANE_WRITE.value]
        self._rows.tokens.add(
            *(self._place.project.pk, self._chance.bytes(32).hex(), "evl_gene", name),
            *(json.dumps(scopes), attempt.key, moment(at), moment(at + timedelta(days=1))),
            moment(at),
        )
        after: Json = {"scopes": scopes, "attempt": attempt.key}
        self.audit("token.issue", f"evl_gene… ({name})", after, at=at)

    def _add_segment(self, begun: _Begun, told: Sequence[Told], class_: str, *, seq: int) -> str:
        """Add a segment with its items; return its digest."""
        pieces = evidence.records(told) if class_ == "record" else evidence.bulk(told)
        segment = evidence.laid_out(self._header(begun.attempt, class_, seq), pieces)
        # Of the header where the archive is not kept: nobody can hold it against the bytes.
        keeps = self._place.keeps_objects
        data = evidence.archive(segment) if keeps else segment.header
        sha256 = bytes_digest(data)
        key = objects.segment_key(begun.attempt, seq=seq, sha256=sha256)
        receipt: Json = {
            "seq": seq,
            "sha256": sha256,
            "accepted": len(segment.pieces),
            "refused": [],
            "received_at": rfc3339(begun.attempt.opened_at),
        }
        if keeps:
            objects.put_bytes(key, data)
            objects.put_document(objects.receipt_key(key), receipt)
        segment_id = self._rows.segments.add(
            *(begun.attempt.pk, seq, sha256, segment.size_bytes, class_, key),
            *(moment(begun.attempt.opened_at), begun.heard_at, json.dumps(receipt), begun.heard_at),
        )
        self._add_items(begun, segment, segment_id, told)
        if class_ == "record" and self._chance.random() < _REFUSED:
            self._add_refusals(begun, segment_id, key)
        return sha256

    def _header(self, attempt: Attempt, class_: str, seq: int) -> bytes:
        header = SegmentHeader.model_validate(
            {
                "project": self._place.project.name,
                "plan": self.digest,
                "lane": attempt.lane.name,
                "attempt": attempt.key,
                "seq": seq,
                "class": class_,
                "tested_sha": self._case.tested_sha,
                "created_at": attempt.opened_at,
            }
        )
        return header.model_dump_json(by_alias=True).encode()

    def _add_items(
        self, begun: _Begun, segment: Laid, segment_id: int, told: Sequence[Told]
    ) -> None:
        calls = {run.key: run.calls for run in told}
        add, add_call = self._rows.items.add, self._rows.judge_calls.add
        attempt = begun.attempt
        for piece, offset in zip(segment.pieces, segment.offsets, strict=True):
            size = len(piece.data)
            run_id = begun.runs[piece.key] if piece.key is not None else None
            item_id = add(
                *(segment_id, attempt.pk, run_id, piece.path, piece.kind.value, piece.part),
                *(piece.name, piece.sha256, size, offset, size, piece.lines, ""),
            )
            if piece.kind is ItemKind.JUDGE and piece.key is not None:
                for call in calls[piece.key]:
                    add_call(
                        *(run_id, item_id, call.call_id, call.rubric, STAGES[call.rubric]),
                        *(FINGERPRINTS[call.rubric], 1, call.value),
                    )
            if piece.kind in evidence.COUNTED_RECORDS:
                self._records.append([self.digest, attempt.key, piece.path, piece.sha256])

    def _add_spending(self, begun: _Begun, told: Sequence[Told]) -> None:
        add_score, add_entry = self._rows.scores.add, self._rows.ledger.add
        project, lane, key = self._place.project.pk, begun.lane, begun.attempt.key
        for run in told:
            run_id = begun.runs[run.key]
            for call in run.calls:
                stage = STAGES[call.rubric]
                add_score(run_id, call.rubric, stage, FINGERPRINTS[call.rubric], call.value, 1)
                add_entry(
                    *(project, self.digest, lane, key, call.call_id, call.rubric, stage),
                    *(call.cost_microusd, "provider", begun.heard_at),
                )
                self._spent[lane] += call.cost_microusd
            if run.latency_s is not None:
                add_score(run_id, "latency_s", "result", "", run.latency_s, 1)

    def _add_refusals(self, begun: _Begun, segment_id: int, object_key: str) -> None:
        for category, code, detail in _REFUSALS[: 1 + int(self._chance.integers(3))]:
            path = f"runs/unknown/{code}/1/result.json"
            self._rows.refusals.add(
                *(begun.attempt.pk, self.pk, segment_id, path, category.value, code, detail),
                *(bytes_digest(path.encode()), len(path), object_key, begun.heard_at),
            )
            if code == "invalid_record":
                self._rows.unknown_costs.add(
                    *(self._place.project.pk, self.digest, begun.lane, begun.attempt.key),
                    *(path, 1, begun.heard_at),
                )

    def _add_allocations(self) -> None:
        case = self._case
        released_at = moment(case.at + TOOK) if case.state == PlanState.CONCLUDED else None
        for lane, spent in self._spent.items():
            self._rows.allocations.add(
                *(self._place.pool.pk, self.digest, lane, LANE_BUDGET_MICROUSD, spent),
                *(moment(case.at), released_at),
            )


def _error_of(run: Told) -> tuple[str | None, str | None]:
    if run.outcome == "agent_error":
        return "agent", "ToolLoopError"
    return ("infra", "OutOfMemory") if run.outcome == "infra_error" else (None, None)
