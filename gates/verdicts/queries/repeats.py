"""What the numbers do not show by themselves: lanes that measured again, scenarios without a score."""

from collections.abc import Collection

from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.policy import Policy
from evalhub.protocol.records import MEASURED
from gates.verdicts.queries.comparators import candidate_arms
from gates.verdicts.queries.evidence import Evidence
from gates.verdicts.queries.findings import Code, Effect, Finding, finding
from gates.verdicts.queries.sides import gating_keys, required_lanes
from lanes.plans.models import Plan


def remeasured_findings(
    plan: Plan, document: PlanDocument, evidence: Evidence, *, measured: Collection[str]
) -> list[Finding]:
    """Return the lanes that measured in several attempts: all of them count, and dilute each other."""
    subjects = []
    for lane in required_lanes(document):
        attempts = {
            run.attempt_number
            for key in lane.run_keys
            for run in evidence.of(plan.pk, key)
            if run.outcome in measured
        }
        if len(attempts) > 1:
            subjects.append(f"{lane.name}: {len(attempts)} attempts")
    return finding(
        Code.REMEASURED,
        Effect.NOTE,
        subjects,
        "Lanes that measured in more than one attempt; the runs of all of them count together.",
    )


def unscored_findings(
    plan: Plan, document: PlanDocument, policy: Policy, evidence: Evidence
) -> list[Finding]:
    """Return the scenarios that ran and have no score on a rubric that blocks.

    A rubric without any score at all says so in its verdict, and is not told scenario by scenario.
    """
    subjects = []
    for arm in candidate_arms(document):
        runs: dict[str, list[int]] = {}
        for key in gating_keys(document, arm.name):
            for run in evidence.of(plan.pk, key):
                # A crash that counts against the agent has a score: the worst.
                if run.outcome in MEASURED:
                    runs.setdefault(key.scenario, []).append(run.run_id)
        for rubric in document.rubrics:
            if policy.rubrics[rubric].gate != "block":
                continue
            scored = _scored(rubric, evidence)
            silent = [name for name, ids in runs.items() if not scored.intersection(ids)]
            if len(silent) < len(runs):
                subjects += [f"{scenario}: {rubric} ({arm.name})" for scenario in silent]
    return finding(
        Code.UNSCORED,
        Effect.NOTE,
        subjects,
        "Scenarios that ran and have no score on a rubric that blocks; they were not compared.",
    )


def _scored(rubric: str, evidence: Evidence) -> set[int]:
    """Return the runs with a value at any stage."""
    values = evidence.values.get(rubric, {})
    return {
        run_id for run_id, stages in values.items() if any(v is not None for v in stages.values())
    }
