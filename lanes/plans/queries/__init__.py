"""Reads: suites, policies, plans, lanes and attempts. Imported as one name."""

from lanes.plans.queries.attempts import (
    attempt_with_key,
    attempts_of,
    lane_named,
    lanes_of,
    newest_attempts,
)
from lanes.plans.queries.documents import (
    current_policy,
    current_suite,
    plan_document,
    policy_document,
    suite_document,
)
from lanes.plans.queries.plans import (
    ALL_PLANS,
    NOT_CONCLUDED,
    PlanFilter,
    origin_of,
    plan_in_place_of,
    plan_with_digest,
    plans_of,
    plans_of_commit,
)
from lanes.plans.queries.schedules import (
    EARLY,
    ScheduleState,
    nightlies,
    schedule_of,
    schedule_states,
    schedules_of,
    watched_schedules,
)
from lanes.plans.queries.waiting import (
    are_lanes_sealed,
    attempt_counts_of_open_plans,
    is_finished,
    open_plan_counts,
    open_plans,
    plans_to_conclude,
    unconcluded_since,
)

__all__ = [
    "ALL_PLANS",
    "EARLY",
    "NOT_CONCLUDED",
    "PlanFilter",
    "ScheduleState",
    "are_lanes_sealed",
    "attempt_counts_of_open_plans",
    "attempt_with_key",
    "attempts_of",
    "current_policy",
    "current_suite",
    "is_finished",
    "lane_named",
    "lanes_of",
    "newest_attempts",
    "nightlies",
    "open_plan_counts",
    "open_plans",
    "origin_of",
    "plan_document",
    "plan_in_place_of",
    "plan_with_digest",
    "plans_of",
    "plans_of_commit",
    "plans_to_conclude",
    "policy_document",
    "schedule_of",
    "schedule_states",
    "schedules_of",
    "suite_document",
    "unconcluded_since",
    "watched_schedules",
]
