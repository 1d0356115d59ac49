"""README's example files are what the wire takes."""

import json
import re
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


def test_json_examples_are_records_in_their_order() -> None:
    examples = blocks("json")

    assert len(examples) == len(JSON_FILES)
    for kind, text in zip(JSON_FILES, examples, strict=True):
        assert TypeAdapter(kind).validate_json(text)
