"""Agents and plans that the tests of conclusions tell of."""

from collections.abc import Callable
from typing import Any

from evalhub.protocol.plan import RunKey
from tests.gates.factories import (
    NEXT_SHA,
    SCENARIOS,
    Teller,
    Told,
)
from tests.lanes.factories import lane_document


def altered(tell: Teller, change: Callable[[RunKey, Told], Told | None]) -> Teller:
    """Return an agent that leaves what `change` makes of each run."""

    def told(key: RunKey) -> Told | None:
        before = tell(key)
        return None if before is None else change(key, before)

    return told


def arm(name: str, *, sha: str = NEXT_SHA, condition: str = "clean", model: str = "luna-6") -> Any:
    return {
        "name": name,
        "subject": "support-agent",
        "model": model,
        "condition": condition,
        "sha": sha,
    }


def lane(name: str, category: str, **fields: Any) -> Any:
    scenarios = [s for s, c in SCENARIOS if c == category]
    expects = {"run": ["result", "judge"], "lane": []}
    return lane_document(name, category, scenarios, epochs=2, expects=expects, **fields)
