"""Reads: runs, items and their bytes, scores, refusals, and what is still missing. Imported as one name."""

from evidence.store.queries.contents import (
    EvidenceDamagedError,
    ReportedEnvironment,
    item_bytes,
    lane_environments,
    refusal_bytes,
)
from evidence.store.queries.coverage import (
    LaneCoverage,
    PlanFacts,
    lane_coverage,
    missing_evidence,
    plan_facts,
)
from evidence.store.queries.runs import (
    RecordItem,
    RunRow,
    ScoreRow,
    are_being_rebuilt,
    items_of_attempt,
    items_of_run,
    record_items,
    run_rows,
    run_with_id,
    runs_of_plan,
    score_rows,
    segment_digests,
)
from evidence.store.queries.secrets import (
    secrets_in_attempt,
    secrets_in_items,
    secrets_in_plan,
    shown_bytes,
    shown_refusal_bytes,
)
from evidence.store.queries.trouble import (
    recent_refusal_counts,
    refusal_counts,
    refusals_of_plan,
    storage_fault_counts,
    storage_faults_since,
)

__all__ = [
    "EvidenceDamagedError",
    "LaneCoverage",
    "PlanFacts",
    "RecordItem",
    "ReportedEnvironment",
    "RunRow",
    "ScoreRow",
    "are_being_rebuilt",
    "item_bytes",
    "items_of_attempt",
    "items_of_run",
    "lane_coverage",
    "lane_environments",
    "missing_evidence",
    "plan_facts",
    "recent_refusal_counts",
    "record_items",
    "refusal_bytes",
    "refusal_counts",
    "refusals_of_plan",
    "run_rows",
    "run_with_id",
    "runs_of_plan",
    "score_rows",
    "secrets_in_attempt",
    "secrets_in_items",
    "secrets_in_plan",
    "segment_digests",
    "storage_fault_counts",
    "storage_faults_since",
]
