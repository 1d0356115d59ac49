"""The rows of a plan and its attempts, made again from the documents in its folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from evalhub.columns import ColumnError, Columns
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.retained import RetainedState
from evalhub.web.errors import NotFoundError
from evidence.store.models import PlanCopy, Seal
from evidence.store.operations import documents, objects
from evidence.store.operations.findings import Grade
from evidence.store.operations.plan_folders import AttemptFolder, PlanFolder
from lanes.budget.operations import retained as budget_retained
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan, PolicyVersion
from lanes.plans.operations import attempts as attempts_operations
from lanes.plans.operations import lifecycle as lifecycle_operations
from lanes.plans.operations import retained as plans_retained
from lanes.plans.operations.retained import End
from lanes.projects.models import Project


@dataclass
class Tally:
    """How many rows were made."""

    plans: int = 0
    attempts: int = 0
    segments: int = 0
    refused_segments: int = 0
    removed_segments: int = 0

    def counts(self) -> dict[str, int]:
        return dict(vars(self))


class KnownAttempt(NamedTuple):
    """An attempt as objects and rows have it."""

    folder: AttemptFolder
    row: Attempt


class PlanRows:
    """A plan on its way from documents to rows; its segments aside."""

    def __init__(self, folder: PlanFolder, tally: Tally, *, at: datetime) -> None:
        self.folder = folder
        self.tally = tally
        self.at = at
        self._stored = 0
        self._counted: int | None = None

    def plan(self) -> Plan | None:
        folder = self.folder
        project = Project.objects.filter(name=folder.project).first()
        if project is None:
            sentence = f"There is no project {folder.project}:"
            sentence += " make it with `manage.py create_project`."
            folder.tell(Grade.UNINDEXED, folder.path, sentence)
            return None
        folder.read_all()
        plan = Plan.objects.filter(digest=folder.digest).defer("document").first()
        if plan is None:
            return self._new_plan(project, folder.state)
        if plan.project_id != project.pk:
            sentence = "Its plan is registered in another project."
            folder.tell(Grade.EXTRA, folder.path, sentence)
            return None
        if folder.state is not None:
            plans_retained.restore_marks(plan, folder.state.columns)
        if plan.is_foreign and folder.origin is not None:
            plans_retained.restore_origin(plan, folder.origin)
        return plans_queries.plan_with_digest(plan.digest)

    def _new_plan(self, project: Project, state: RetainedState | None) -> Plan | None:
        folder = self.folder
        lost = "The plan's document is lost, and nothing of it can be read without that."
        document = folder.named(objects.PLAN, digest=folder.digest, lost=lost)
        if document is None:
            return None
        try:
            wanted = parse_document(PlanDocument, document.text)
            columns = self._columns(state)
            if wanted.project != project.name and not columns.get("is_foreign"):
                sentence = f"The plan is of project {wanted.project}; where it came from is lost."
                folder.tell(Grade.MISSING, f"{folder.path}/{objects.FOREIGN}", sentence)
                return None
            is_foreign = bool(columns.get("is_foreign"))
            policy = self._policy(project, wanted.policy_digest, is_foreign=is_foreign)
            if policy is None:
                return None
            with transaction.atomic():
                plan = plans_retained.restore_plan(
                    document, policy=policy, columns=columns, at=folder.begun_at() or self.at
                )
                if folder.origin is not None:
                    plans_retained.restore_origin(plan, folder.origin)
                known = state.attempts if state is not None else []
                for one in known:
                    plans_retained.restore_attempt(plan, one.identity, columns=one.columns)
                PlanCopy.objects.create(
                    plan=plan,
                    seen_version=documents.changes_of(plan) if state is not None else 0,
                    rebuild_counted=state.evidence if state is not None else 0,
                )
        except (DocumentError, ColumnError, NotFoundError) as error:
            folder.tell(Grade.DAMAGED, f"{folder.path}/{objects.PLAN}", f"Not restored: {error}")
            return None
        self.tally.plans += 1
        self.tally.attempts += len(known)
        return plan

    def _columns(self, state: RetainedState | None) -> Columns:
        """Return what is told of the plan's row; that it was imported, two documents tell."""
        columns = dict(state.columns) if state is not None else {}
        origin = self.folder.origin
        if origin is None:
            if columns.get("is_foreign"):
                key = f"{self.folder.path}/{objects.FOREIGN}"
                self.folder.tell(Grade.MISSING, key, "Where the plan was imported from is lost.")
            return columns
        return {"registered_by": origin.imported_by, **columns, "is_foreign": True}

    def _policy(self, project: Project, digest: str, *, is_foreign: bool) -> PolicyVersion | None:
        known = PolicyVersion.objects.filter(project=project, digest=digest).first()
        if known is not None and (is_foreign or not known.is_foreign):
            return known
        lost = f"The policy {digest} is lost: register it with `evalhub policy put`."
        document = self.folder.named(objects.POLICY, digest=digest, lost=lost)
        if document is None:
            return None
        return plans_retained.restore_policy(
            project, document, is_foreign=is_foreign, at=self.folder.begun_at() or self.at
        )

    def give_allocations(self, plan: Plan) -> None:
        if plan.is_foreign:
            return
        for lane, pool, columns in self._given(plan):
            is_there = budget_retained.restore_allocation(
                plan.project, plan.digest, lane=lane, pool_name=pool, columns=columns
            )
            if not is_there:
                sentence = f"Lane {lane} was given money of pool {pool}, which is not there:"
                sentence += " make it with `evalhub pool put`."
                self.folder.tell(Grade.UNINDEXED, self.folder.path, sentence)

    def _given(self, plan: Plan) -> Iterator[tuple[str, str, Columns]]:
        if self.folder.state is not None:
            for given in self.folder.state.allocations:
                yield given.lane, given.pool, given.columns
            return
        for lane in plans_queries.plan_document(plan).lanes:
            if lane.pool is not None and lane.budget_microusd is not None:
                opened_at = plan.registered_at.isoformat()
                limit = lane.budget_microusd
                yield lane.name, lane.pool, {"limit_microusd": limit, "opened_at": opened_at}

    def attempts(self, plan: Plan) -> Iterator[KnownAttempt]:
        told = (
            {}
            if self.folder.state is None
            else {one.identity.attempt: one.columns for one in self.folder.state.attempts}
        )
        rows = {
            row.key: row
            for row in Attempt.objects.filter(lane__plan=plan)
            .select_related("lane__plan__project")
            .defer("lane__plan__document")
        }
        ordered = sorted(
            self.folder.attempts, key=lambda one: (one.document.lane, one.document.number)
        )
        for folder in ordered:
            row = rows.get(folder.document.attempt)
            if row is None:
                row = self._new_attempt(plan, folder, told.get(folder.document.attempt))
            if row is not None:
                yield KnownAttempt(folder, row)

    def _new_attempt(
        self, plan: Plan, folder: AttemptFolder, columns: Columns | None
    ) -> Attempt | None:
        document = folder.document
        place = f"{self.folder.path}/{document.lane}/{document.attempt}"
        try:
            lane = plans_queries.lane_named(plan, document.lane)
            if plans_retained.lane_has_number(lane, document.number):
                sentence = f"Lane {lane.name} has another attempt {document.number} by now."
                self.folder.tell(Grade.UNINDEXED, place, sentence)
                return None
            self.begin(plan)
            with transaction.atomic():
                row = plans_retained.restore_attempt(plan, document, columns=columns or {})
                if plan.cancelled_at is None:
                    # The plan's row was there before and has not heard of it.
                    attempts_operations.run_again(plan, at=document.opened_at)
        except (NotFoundError, ColumnError) as error:
            self.folder.tell(Grade.DAMAGED, place, str(error))
            return None
        self.tally.attempts += 1
        return row

    def begin(self, plan: Plan) -> None:
        """Mark the plan, so that nothing is concluded from a part; and count what its row has seen."""
        if self._counted is not None:
            return
        self._stored = documents.evidence_count(plan)
        copy, _ = PlanCopy.objects.get_or_create(plan=plan)
        if copy.rebuild_counted is None:
            # Rows that were there before: the plan's row has seen them, and none of the others.
            copy.rebuild_counted = self._stored
            copy.save(update_fields=["rebuild_counted"])
        self._counted = copy.rebuild_counted

    def is_next_counted(self) -> bool:
        """Return whether the plan's row has seen the segment whose rows are made now; count it."""
        self._stored += 1
        return self._counted is not None and self._stored <= self._counted

    def end(self, plan: Plan) -> None:
        """Take the mark off: everything is there that could be made."""
        marked = PlanCopy.objects.filter(plan=plan, rebuild_counted__isnull=False)
        marked.update(rebuild_counted=None)

    def give_ends(self, plan: Plan, known: Sequence[KnownAttempt]) -> None:
        """Give attempts the ends that their documents tell, and the rows of their seals."""
        opened: dict[str, datetime] = {}
        # From the newest of each lane on: an attempt ends at the latest when the next one is opened.
        for one in reversed(known):
            document, seal = one.folder.document, one.folder.seal
            end = End(None if seal is None else seal.sealed_at, opened.get(document.lane))
            opened[document.lane] = document.opened_at
            if seal is not None:
                Seal.objects.get_or_create(
                    attempt=one.row,
                    defaults={
                        "segments": seal.segments,
                        "digest": seal.digest,
                        "sealed_at": seal.sealed_at,
                        "stored_at": self.at,
                    },
                )
            if plans_retained.is_behind(one.row, end):
                self.begin(plan)
                with transaction.atomic():
                    plans_retained.restore_end(one.row, end)
                    lifecycle_operations.bump_inputs(plan, at=self.at)
