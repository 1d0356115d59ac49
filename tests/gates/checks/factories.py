"""Plans with a conclusion, and checks, for the tests of this room."""

from datetime import datetime
from typing import Any

from gates.checks.models import Check
from gates.checks.operations.desired import desire_check
from gates.decisions.models import Conclusion
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from lanes.projects.models import Project
from tests.lanes.factories import NOW, make_plan, make_project

Json = dict[str, Any]

VERDICT: Json = {
    "rubric": "resolved",
    "category": None,
    "arm": "candidate",
    "comparison": "history",
    "verdict": "REGRESSION",
    "confirmed": True,
    "delta": -0.14,
    "ci95": [-0.21, -0.08],
    "mde": 0.09,
    "n": {"b": 26, "c": 26, "pairs": 26},
    "reasons": [],
    "record": f"sha256:{'1' * 64}",
    "gates": True,
    "kind": "binary",
    "mean_b": 0.91,
    "mean_c": 0.77,
}


def conclusion_content(plan: Plan, *, conclusion: str = "failure", **fields: Any) -> Json:
    """Return the JSON of a conclusion with some fields replaced."""
    return {
        "plan": plan.digest,
        "generation": plan.generation,
        "conclusion": conclusion,
        "title": "0 of 1 rubric passes; resolved is worse by 0.14 (0.08 to 0.21) on 26 scenarios",
        "findings": [],
        "verdicts": [VERDICT],
        "attempts": [],
        "spend_microusd": 1_234_000,
        "unknown_cost_calls": 0,
        "sentences": ["resolved is worse by 0.14 (compared with the adopted baseline)."],
        "data_reasons": [],
        "left_out": [],
        "isolation": [
            {"resource": "world", "claim": "exclusive", "state": "proven", "offences": []}
        ],
        "coverage": [
            {
                "lane": "ordinary-1",
                "kind": "ordinary",
                "required": True,
                "state": "SEALED",
                "planned": 3,
                "measured": 3,
                "unmeasured": 0,
                "missing": 0,
                "refused": 0,
            }
        ],
        "advisory": [],
        **fields,
    }


def conclude(
    plan: Plan, conclusion: str = "failure", *, at: datetime = NOW, **fields: Any
) -> Conclusion:
    """Store a conclusion of this word on the plan's present inputs."""
    version = Plan.objects.values_list("inputs_version", flat=True).get(pk=plan.pk)
    assert lifecycle.mark_concluded(plan, inputs_version=version, at=at)
    content = conclusion_content(plan, conclusion=conclusion, **fields)
    return Conclusion.objects.create(
        plan=plan,
        generation=plan.generation,
        inputs_version=version,
        conclusion=conclusion,
        title=content["title"],
        content=content,
        decided_at=at,
    )


def make_checked_project() -> Project:
    """Make a project whose plans get checks although nobody vouches for them."""
    return make_project(checks_for_unverified=True)


def make_check(plan: Plan | None = None, *, at: datetime = NOW) -> Check:
    """Return the check of a plan's commit as it should be now, undelivered."""
    check = desire_check(plan or make_plan(make_checked_project()), at=at)
    assert check is not None
    return check
