"""README's example files are what the wire takes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from evalhub.protocol.faults import parse_document
from evalhub.protocol.notices import Notice
from evalhub.protocol.plan import Guard, StageReference
from evalhub.protocol.policy import Policy
from evalhub.protocol.records import JudgeLine, Redactions, Result, Turn
from evalhub.protocol.suite import LaneMap, Suite
from evalhub.runner import cli
from evalhub.runner.clock import now
from evalhub.runner.errors import Exit
from tests.architecture.test_documentation import README

YAML_FILES: dict[str, type[BaseModel]] = {
    "suite.yaml": Suite,
    "policy.yaml": Policy,
    "lanes.yaml": LaneMap,
}
JSON_FILES: list[Any] = [
    list[StageReference],
    list[Guard],
    Result,
    Turn,
    JudgeLine,
    Redactions,
    Notice,
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", list(YAML_FILES))
def test_yaml_example_is_a_document(name: str) -> None:
    (text,) = [block for block in blocks("yaml") if block.startswith(f"# {name}\n")]

    document = parse_document(YAML_FILES[name], json.dumps(yaml.safe_load(text)))

    assert document.model_fields_set


def test_examples_make_a_plan_together(tmp_path: Path) -> None:
    examples = {text.split("\n", 1)[0].removeprefix("# "): text for text in blocks("yaml")}
    stages, guards = blocks("json")[:2]
    fresh = [{**guard, "checked_at": f"{now():%FT%TZ}"} for guard in json.loads(guards)]
    for name, text in {**examples, "stages": stages, "guards": json.dumps(fresh)}.items():
        (tmp_path / name).write_text(text)
    commit = "a" * 40

    code = cli.main(
        ["plan", "build", "--project", "acme/support-agent", "--suite", f"{tmp_path}/suite.yaml",
         "--policy", f"{tmp_path}/policy.yaml", "--lane-map", f"{tmp_path}/lanes.yaml",
         "--stages", f"{tmp_path}/stages", "--guards", f"{tmp_path}/guards",
         "--arm", "candidate=support-agent:luna-6", "--tier", "sandboxed_interactive",
         "--event", "push", "--ref", "refs/heads/main", "--head-sha", commit,
         "--tested-sha", commit, "--out", f"{tmp_path}/plan.json"]
    )  # fmt: skip

    assert code == Exit.GOOD


def test_json_examples_are_records_in_their_order() -> None:
    examples = blocks("json")

    assert len(examples) == len(JSON_FILES)
    for kind, text in zip(JSON_FILES, examples, strict=True):
        assert TypeAdapter(kind).validate_json(text)
