"""The tables that a generated store fills, in the order in which their rows refer to each other."""

from django.db import transaction

from evalhub.growth.tables import Table, follow_with_sequences
from evidence.store.models import Item, JudgeCall, PlanCopy, Refusal, Run, Score, Seal, Segment
from gates.checks.models import Check
from gates.decisions.models import Conclusion
from gates.verdicts.models import Baseline, ChosenBaseline, DecisionRecord
from lanes.budget.models import LedgerEntry, SubAllocation, UnknownCost
from lanes.plans.models import Attempt, Lane, Plan
from lanes.projects.models import AuditEntry, Token


class Rows:
    """Everything that is not written yet. A column that is not named here has its own default."""

    def __init__(self) -> None:
        self.plans = Table(
            Plan,
            "project_id policy_id digest document kind suite_name suite_digest event ref"
            " pull_request head_sha tested_sha base_sha workflow_run_id run_count is_verified state"
            " generation inputs_version concluded_version registered_by registered_at deadline_at"
            " superseded_at copied_superseded_at cancelled_at copied_cancelled_at concluded_at"
            " copied_version",
        )
        self.lanes = Table(Lane, "plan_id name kind run_count is_required")
        self.attempts = Table(
            Attempt,
            "lane_id key number state opened_at last_heard_at ended_at phase done total",
        )
        self.tokens = Table(
            Token,
            "project_id digest prefix name scopes attempt created_at expires_at last_used_at",
        )
        self.segments = Table(
            Segment,
            "attempt_id seq sha256 size_bytes segment_class object_key created_at received_at"
            " receipt receipt_stored_at",
        )
        self.seals = Table(Seal, "attempt_id segments digest sealed_at stored_at")
        self.copies = Table(PlanCopy, "plan_id seen_version")
        self.runs = Table(
            Run,
            "plan_id lane_id attempt_id scenario arm epoch outcome started_at duration_ms"
            " transcript_parts error_origin error_type",
        )
        self.items = Table(
            Item,
            "segment_id attempt_id run_id path kind part name sha256 size_bytes header_offset"
            " stored_bytes lines secrets",
        )
        self.refusals = Table(
            Refusal,
            "attempt_id plan_id segment_id path category code detail sha256 size_bytes object_key"
            " refused_at",
        )
        self.judge_calls = Table(
            JudgeCall, "run_id item_id call_id rubric stage fingerprint repeat value"
        )
        self.scores = Table(Score, "run_id rubric stage fingerprint value repeats")
        self.ledger = Table(
            LedgerEntry,
            "project_id plan lane attempt call_id rubric stage cost_microusd cost_source settled_at",
        )
        self.allocations = Table(
            SubAllocation,
            "pool_id plan lane limit_microusd spent_microusd opened_at released_at",
        )
        self.unknown_costs = Table(UnknownCost, "project_id plan lane attempt path lines noted_at")
        self.baselines = Table(
            Baseline, "project_id suite_name kind plan_id adopted_by adopted_at reason"
        )
        self.chosen = Table(ChosenBaseline, "plan_id kind baseline_id evidence_digest chosen_at")
        self.records = Table(
            DecisionRecord,
            "plan_id digest arm rubric category comparison verdict content decided_at",
        )
        self.conclusions = Table(
            Conclusion,
            "plan_id generation inputs_version conclusion title content decided_at",
        )
        self.conclusion_records = Table(
            Conclusion.records.through, "conclusion_id decisionrecord_id"
        )
        self.checks = Table(
            Check,
            "project_id suite_name head_sha name external_id status conclusion title summary text"
            " details_url started_at completed_at desired_version sent_version github_id attempts"
            " last_error desired_at looked_at delivered_at",
        )
        self.audit = Table(AuditEntry, "project_id at actor action subject after")

    @property
    def tables(self) -> list[Table]:
        return [table for table in vars(self).values() if isinstance(table, Table)]

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has by now."""
        return {table.name: table.count() for table in self.tables}

    def write(self) -> None:
        """Write what was kept in one transaction."""
        with transaction.atomic():
            for table in self.tables:
                table.write()
            follow_with_sequences(self.tables)
