"""The demo suite: what its files claim is true, and what it takes is what the protocol reads."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalhub.demo import build_suite
from evalhub.demo.judging import DEFINITIONS
from evalhub.protocol.canonical import document_digest
from evalhub.protocol.faults import parse_document
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import LaneMap, Suite

FOLDER = build_suite.FOLDER / "suite"


def loaded(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


@pytest.fixture(scope="module")
def suite() -> Suite:
    return parse_document(Suite, json.dumps(loaded("suite.yaml")))


def test_suite_is_what_the_scenario_files_make() -> None:
    assert loaded("suite.yaml") == build_suite.suite_document()
    assert json.loads(build_suite.STAGES.read_text()) == build_suite.stages_document()


def test_digests_are_those_of_the_scenario_files(suite: Suite) -> None:
    for scenario in suite.scenarios:
        path = build_suite.ROOT / str(scenario.file)
        document = yaml.safe_load(path.read_text())

        assert scenario.digest == document_digest(document)
        assert (document["id"], document["category"]) == (path.stem, path.parent.name)
        assert (scenario.id, scenario.category) == (document["id"], document["category"])


def test_suite_is_large_enough_to_decide(suite: Suite) -> None:
    categories = Counter(scenario.category for scenario in suite.scenarios)

    assert len(suite.scenarios) >= 24
    assert len(categories) == 5
    assert suite.memory_categories == ["memory"]
    assert min(categories.values()) >= 5


def test_lane_map_gives_memory_a_lane_of_its_own(suite: Suite) -> None:
    lanes = parse_document(LaneMap, json.dumps(loaded("lanes.yaml"))).lanes
    owned = [category for share in lanes for category in share.categories]

    assert len(lanes) == 4
    assert [share.categories for share in lanes if "memory" in share.categories] == [["memory"]]
    assert sorted(owned) == sorted({scenario.category for scenario in suite.scenarios})


def test_policy_knows_every_judged_rubric() -> None:
    policy = parse_document(Policy, json.dumps(loaded("policy.yaml")))
    judged = {
        (name, stage)
        for name, rubric in policy.rubrics.items()
        if rubric.source == "judge"
        for stage in rubric.stages
    }

    assert judged == {(stage["rubric"], stage["stage"]) for stage in DEFINITIONS}
    assert set(policy.isolation.model_dump().values()) == {"not_claimed"}
    assert policy.guards.required == ["agent_registered", "simulator_up"]
    assert policy.baseline.auto_adopt is False


def test_scenarios_name_only_orders_and_customers_that_exist() -> None:
    from_seed = (build_suite.ROOT / "evalhub/runner/simulator/seeding.py").read_text()
    for path in build_suite.scenario_files():
        for email in _emails_to_find(path):
            assert f'"{email}"' in from_seed, path


def _emails_to_find(path: Path) -> list[str]:
    steps = yaml.safe_load(path.read_text())["steps"]
    return [step["where"]["email"] for step in steps if "email" in step.get("where", {})]
