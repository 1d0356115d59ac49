"""The smallest valid documents, as dictionaries that a test may bend."""

import json
from datetime import UTC, datetime
from typing import Any

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.faults import parse_document
from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite

Json = dict[str, Any]

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
DIGEST = bytes_digest(b"anything")
TESTED_SHA, BASE_SHA = "b" * 40, "c" * 40


def scenario(name: str, category: str, *artifacts: str) -> Json:
    return {"id": name, "category": category, "digest": DIGEST, "artifacts": list(artifacts)}


def lane(name: str, categories: list[str], runs: list[list[Any]], **fields: Any) -> Json:
    return {
        "name": name,
        "kind": "ordinary",
        "categories": categories,
        "memory": False,
        "runs": runs,
        "expects": {"run": ["result"], "lane": []},
        "environment": {"tier": "containerized"},
        "timeout_minutes": 60,
        **fields,
    }


def arm(name: str = "candidate", **fields: Any) -> Json:
    return {
        "name": name,
        "subject": "support-agent",
        "model": "luna-6",
        "condition": "clean",
        "sha": TESTED_SHA,
        **fields,
    }


def guard(name: str = "simulator_up", **fields: Any) -> Json:
    return {
        "name": name,
        "expected": "ok",
        "observed": "ok",
        "result": "ok",
        "checked_at": "2026-11-29T11:30:00Z",
        "fix": "evalhub simulator serve",
        **fields,
    }


def plan_json(**fields: Any) -> Json:
    """Return a plan of two lanes, `orders` and `refunds`, that no rule refuses."""
    return {
        "schema": "evalhub.plan/1",
        "kind": "gate",
        "project": "acme/agent",
        "suite": {"name": "support", "version": "1", "digest": DIGEST},
        "policy_digest": DIGEST,
        "source": {"event": "pull_request", "tested_sha": TESTED_SHA, "base_sha": BASE_SHA},
        "arms": [arm()],
        "rubrics": ["resolved"],
        "stages": [{"rubric": "resolved", "stage": "check", "fingerprint": DIGEST}],
        "scenarios": [
            scenario("lookup", "orders"),
            scenario("late", "refunds", "prompt:refunds"),
            scenario("twice", "refunds", "prompt:refunds"),
        ],
        "lanes": [
            lane("orders", ["orders"], [["lookup", "candidate", 1]]),
            lane("refunds", ["refunds"], [["late", "candidate", 1], ["twice", "candidate", 1]]),
        ],
        "guards": [guard()],
        "limits": {"ordinary": 4, "baseline": 1, "max_parallel": 4},
        "deadline_minutes": 240,
        **fields,
    }


def policy_json(**fields: Any) -> Json:
    return {
        "schema": "evalhub.policy/1",
        "rubrics": {
            "resolved": {
                "kind": "binary",
                "direction": "higher_is_better",
                "min_effect": 0.1,
                "gate": "block",
                "stages": ["check", "llm"],
            },
            "latency_s": {"kind": "tail", "gate": "warn", "from": "result"},
        },
        "guards": {"required": ["simulator_up"], "max_age_minutes": 60},
        "environment": {"minimum_tier": "sandboxed_interactive"},
        **fields,
    }


def suite_json(**fields: Any) -> Json:
    return {
        "schema": "evalhub.suite/1",
        "name": "support",
        "version": "1",
        "scenarios": [scenario("lookup", "orders"), scenario("late", "refunds")],
        **fields,
    }


def plan(**fields: Any) -> Plan:
    return parse_document(Plan, json.dumps(plan_json(**fields)))


def policy(**fields: Any) -> Policy:
    return parse_document(Policy, json.dumps(policy_json(**fields)))


def suite(**fields: Any) -> Suite:
    return parse_document(Suite, json.dumps(suite_json(**fields)))
