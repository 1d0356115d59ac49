"""Why a plan is not registered. The same rules offline (`evalhub plan check`) and at the server.

Each rule looks at the whole plan and yields every fault it finds. What needs the database (is the
policy current, does the pool cover the plan) is the server's alone.
"""

from datetime import datetime

from evalhub.protocol import means_rules, ownership_rules, suite_rules
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.refusals import BaseSuite, Case, Refusal, Rule

RULES: tuple[Rule, ...] = (
    ownership_rules.orphaned_categories,
    ownership_rules.shared_run_keys,
    ownership_rules.shared_categories,
    ownership_rules.split_artifacts,
    ownership_rules.unknown_scenarios,
    ownership_rules.unplanned_scenarios,
    ownership_rules.foreign_categories,
    ownership_rules.empty_lanes,
    ownership_rules.names_of_documents,
    ownership_rules.lanes_beyond_limits,
    means_rules.memory,
    means_rules.guards,
    means_rules.tiers,
    means_rules.rubrics,
    means_rules.arms,
    means_rules.stages,
    means_rules.pools,
    suite_rules.unusable_ids,
    suite_rules.untrue_suite,
)


def registration_refusals(
    plan: Plan, *, policy: Policy, base: BaseSuite | None, at: datetime
) -> list[Refusal]:
    """Return every reason for which this plan cannot be registered; empty when it can."""
    case = Case(plan, policy, base, at)
    return [refusal for rule in RULES for refusal in rule(case)]
