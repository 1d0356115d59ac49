"""Small suites, policies and plans for the lane side."""

import json
from pathlib import Path
from typing import Any

from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import LaneMap, Suite
from evalhub.runner import clock
from evalhub.runner.documents import Loaded, as_document
from evalhub.runner.planning import ArmChoice, PlanRequest, build_plan

PROJECT = "acme/support-agent"


def digest_of(number: int) -> str:
    return f"sha256:{number:064x}"


def make_scenario(name: str, *, category: str = "refunds", **fields: Any) -> dict[str, Any]:
    return {"id": name, "category": category, "digest": digest_of(sum(name.encode())), **fields}


def make_suite(*scenarios: dict[str, Any], **fields: Any) -> Loaded[Suite]:
    document = {
        "schema": "evalhub.suite/1",
        "name": "support",
        "version": "1",
        "scenarios": list(scenarios) or [make_scenario("refund-twice")],
        **fields,
    }
    return as_document(document, Suite, what="suite")


def make_policy(**fields: Any) -> Loaded[Policy]:
    document = {
        "schema": "evalhub.policy/1",
        "rubrics": {
            "resolved": {
                "kind": "binary",
                "direction": "higher_is_better",
                "min_effect": 0.1,
                "gate": "block",
                "from": "result",
            }
        },
        **fields,
    }
    return as_document(document, Policy, what="policy")


def make_lane_map(**fields: Any) -> Loaded[LaneMap]:
    return as_document(fields, LaneMap, what="lane map")


def make_request(**fields: Any) -> PlanRequest:
    defaults: dict[str, Any] = {
        "project": PROJECT,
        "suite": make_suite(),
        "policy": make_policy(),
        "arms": [ArmChoice("candidate", "support-agent", "luna-6")],
        "source": {"event": "manual"},
        "tier": "sandboxed_interactive",
    }
    return PlanRequest(**{**defaults, **fields})


def make_plan(**fields: Any) -> Loaded[Plan]:
    built = build_plan(make_request(**fields), at=clock.now())
    return as_document(built.document, Plan, what="plan")


def written(folder: Path, document: object, name: str = "plan.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path
